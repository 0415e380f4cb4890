#include "checkpoint/dtype.h"

#include <array>
#include <vector>

#include "checkpoint/text.h"

namespace sam_rlx {
namespace {

constexpr int kNone = -1;

struct Row {
  const char* name;  // safetensors' and GGUF's
  std::int64_t bytes;
  NumberKind kind;
  const char* storage;  // PyTorch's class behind "torch.", empty: an untyped one
  const char* torch;    // its dtype behind "torch.", empty: it has none
  int ggml;             // ggml's number
  bool safetensors;     // whether that format has it
};

using enum NumberKind;

constexpr std::size_t kPlain = static_cast<std::size_t>(DType::kC128) + 1;

constexpr Row kRows[kPlain] = {
    {"F64", 8, kFloat, "DoubleStorage", "float64", 28, true},
    {"F32", 4, kFloat, "FloatStorage", "float32", 0, true},
    {"F16", 2, kFloat, "HalfStorage", "float16", 1, true},
    {"BF16", 2, kFloat, "BFloat16Storage", "bfloat16", 30, true},
    {"F8_E4M3", 1, kFloat, "", "float8_e4m3fn", kNone, true},
    {"F8_E5M2", 1, kFloat, "", "float8_e5m2", kNone, true},
    {"F8_E4M3FNUZ", 1, kFloat, "", "float8_e4m3fnuz", kNone, true},
    {"F8_E5M2FNUZ", 1, kFloat, "", "float8_e5m2fnuz", kNone, true},
    {"F8_E8M0", 1, kScale, "", "float8_e8m0fnu", kNone, true},
    {"I64", 8, kInteger, "LongStorage", "int64", 27, true},
    {"I32", 4, kInteger, "IntStorage", "int32", 26, true},
    {"I16", 2, kInteger, "ShortStorage", "int16", 25, true},
    {"I8", 1, kInteger, "CharStorage", "int8", 24, true},
    {"U64", 8, kInteger, "", "uint64", kNone, true},
    {"U32", 4, kInteger, "", "uint32", kNone, true},
    {"U16", 2, kInteger, "", "uint16", kNone, true},
    {"U8", 1, kInteger, "ByteStorage", "uint8", kNone, true},
    {"BOOL", 1, kInteger, "BoolStorage", "bool", kNone, true},
    {"C32", 4, kComplex, "", "complex32", kNone, false},
    {"C64", 8, kComplex, "ComplexFloatStorage", "complex64", kNone, true},
    {"C128", 16, kComplex, "ComplexDoubleStorage", "complex128", kNone, false},
};

// ggml's numbers of the packed formats, in the order of BlockFormat.
constexpr std::array kPackedNumbers{2, 8, 10, 11, 12, 13, 14, 15, 3, 6, 7, 39};
static_assert(kPlain + kPackedNumbers.size() == kNumDTypes);

const Row* plain(DType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kPlain ? &kRows[index] : nullptr;
}

template <class Test>
std::optional<DType> first_of(const Test& test) noexcept {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (test(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  return std::nullopt;
}

template <class Test>
std::string names_of(const Test& test) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kNumDTypes; ++i) {
    if (test(static_cast<DType>(i))) names.emplace_back(dtype_name(static_cast<DType>(i)));
  }
  return alternatives(names);
}

// The name behind "torch.", empty for another module's.
std::string_view torch_name(std::string_view global) noexcept {
  constexpr std::string_view kModule = "torch.";
  return global.starts_with(kModule) ? global.substr(kModule.size()) : std::string_view();
}

bool in_torch(DType dtype) noexcept { return plain(dtype) != nullptr; }
bool in_ggml(DType dtype) noexcept { return ggml_number(dtype) != kNone; }

}  // namespace

int ggml_number(DType dtype) noexcept {
  const Row* const row = plain(dtype);
  return row != nullptr ? row->ggml : kPackedNumbers[static_cast<std::size_t>(dtype) - kPlain];
}

bool in_safetensors(DType dtype) noexcept {
  const Row* const row = plain(dtype);
  return row != nullptr && row->safetensors;
}

std::optional<BlockFormat> block_format(DType dtype) noexcept {
  if (plain(dtype) != nullptr) return std::nullopt;
  return static_cast<BlockFormat>(static_cast<std::size_t>(dtype) - kPlain);
}

std::int64_t dtype_bytes(DType dtype) noexcept {
  const Row* const row = plain(dtype);
  return row != nullptr ? row->bytes : block_facts(*block_format(dtype)).bytes;
}

std::int64_t dtype_numbers(DType dtype) noexcept {
  return plain(dtype) != nullptr ? 1 : block_facts(*block_format(dtype)).numbers;
}

const char* dtype_name(DType dtype) noexcept {
  const Row* const row = plain(dtype);
  return row != nullptr ? row->name : block_facts(*block_format(dtype)).name;
}

NumberKind dtype_kind(DType dtype) noexcept {
  const Row* const row = plain(dtype);
  return row != nullptr ? row->kind : kFloat;
}

std::optional<DType> safetensors_dtype(std::string_view name) noexcept {
  return first_of([&](DType dtype) { return in_safetensors(dtype) && name == dtype_name(dtype); });
}

std::optional<DType> torch_storage_dtype(std::string_view global) noexcept {
  const std::string_view name = torch_name(global);
  if (name.empty()) return std::nullopt;
  return first_of([&](DType dtype) { return in_torch(dtype) && name == plain(dtype)->storage; });
}

std::optional<DType> torch_dtype(std::string_view global) noexcept {
  const std::string_view name = torch_name(global);
  return first_of([&](DType dtype) { return in_torch(dtype) && name == plain(dtype)->torch; });
}

std::optional<DType> ggml_dtype_of(std::uint32_t number) noexcept {
  return first_of([&](DType dtype) {
    return in_ggml(dtype) && number == static_cast<std::uint32_t>(ggml_number(dtype));
  });
}

std::string safetensors_dtypes() { return names_of(in_safetensors); }
std::string torch_dtypes() { return names_of(in_torch); }
std::string ggml_dtypes() { return names_of(in_ggml); }

}  // namespace sam_rlx
