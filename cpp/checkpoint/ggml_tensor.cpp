#include "checkpoint/ggml_tensor.h"

#include <algorithm>
#include <limits>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

struct TypeRow {
  std::uint32_t number;  // ggml's
  DType dtype;
};

constexpr TypeRow kTypes[] = {
    {0, DType::kF32},   {1, DType::kF16},   {2, DType::kQ4_0},  {3, DType::kQ4_1},
    {6, DType::kQ5_0},  {7, DType::kQ5_1},  {8, DType::kQ8_0},  {10, DType::kQ2_K},
    {11, DType::kQ3_K}, {12, DType::kQ4_K}, {13, DType::kQ5_K}, {14, DType::kQ6_K},
    {15, DType::kQ8_K}, {24, DType::kI8},   {25, DType::kI16},  {26, DType::kI32},
    {27, DType::kI64},  {28, DType::kF64},  {30, DType::kBF16}, {39, DType::kMXFP4},
};

struct NameRow {
  std::uint32_t number;
  const char* name;
};

// What is not read.
constexpr NameRow kOthers[] = {
    {9, "Q8_1"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},
    {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {29, "IQ1_M"},   {34, "TQ1_0"}, {35, "TQ2_0"},
};

}  // namespace

DType ggml_dtype(std::uint32_t number, const std::string& location) {
  for (const TypeRow& row : kTypes) {
    if (row.number == number) return row.dtype;
  }
  std::string found = "ggml type " + std::to_string(number);
  for (const NameRow& row : kOthers) {
    if (row.number == number) found += std::string(" (") + row.name + ")";
  }
  fail<UnsupportedError>(location,
                         "type F32, F16, BF16, F64, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, "
                         "Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K or MXFP4",
                         found);
}

std::int64_t lay_out_ggml(TensorEntry& entry, const std::string& location) {
  const std::int64_t block = dtype_numbers(entry.dtype), bytes = dtype_bytes(entry.dtype);
  // Some converters write the sizes of a matrix in PyTorch's order (loading/tensor_map.h): a matrix
  // is told from its blocks at the latest when it has a side that they do not fit.
  const bool fits_rows = !entry.dims.empty() && entry.dims.back() % block == 0;
  const bool fits_columns = entry.dims.size() == 2 && entry.dims.front() % block == 0;
  if (block > 1 && !fits_rows && !fits_columns) {
    fail<CheckpointError>(location,
                          std::string("rows of whole blocks of ") + std::to_string(block) +
                              " numbers for " + dtype_name(entry.dtype),
                          "shape " + dims_text(entry.dims));
  }
  // As float32 too, and each side, though another one may be 0.
  const std::int64_t widest = std::max<std::int64_t>(bytes, sizeof(float));
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / widest;
  entry.strides.resize(entry.dims.size());
  std::int64_t numel = 1;
  for (std::size_t axis = entry.dims.size(); axis-- > 0;) {
    const std::int64_t size = std::max<std::int64_t>(entry.dims[axis], 1);
    entry.strides[axis] = numel;
    if (numel > most / size) {
      fail<CheckpointError>(location, "a shape whose size fits 63 bits", dims_text(entry.dims));
    }
    numel *= size;
  }
  const bool empty = std::find(entry.dims.begin(), entry.dims.end(), 0) != entry.dims.end();
  return empty ? 0 : numel / block * bytes;
}

}  // namespace sam_rlx
