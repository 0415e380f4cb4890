#include "checkpoint/ggml_tensor.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

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
  if (const std::optional<DType> dtype = ggml_dtype_of(number)) return *dtype;
  std::string found = "ggml type " + std::to_string(number);
  for (const NameRow& row : kOthers) {
    if (row.number == number) found += std::string(" (") + row.name + ")";
  }
  fail<UnsupportedError>(location, "type " + ggml_dtypes(), found);
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
