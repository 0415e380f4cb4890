#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/blocks.h"

namespace sam_rlx {

// Number formats of files. The last ones are GGUF's packed formats: blocks of numbers along the
// last axis, in the order of BlockFormat.
enum class DType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8_E4M3,
  kF8_E5M2,
  kF8_E4M3FNUZ,
  kF8_E5M2FNUZ,
  kF8_E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kC32,
  kC64,
  kC128,
  kQ4_0,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kMXFP4
};
constexpr int kNumDTypes = static_cast<int>(DType::kMXFP4) + 1;

// What numbers of a format are. Powers of two alone are scales, and integers stand for weights
// only with scales that other tensors hold.
enum class NumberKind { kFloat, kScale, kInteger, kComplex };

// Bytes and numbers of a block; a plain number is a block of its own.
std::int64_t dtype_bytes(DType dtype) noexcept;
std::int64_t dtype_numbers(DType dtype) noexcept;
// The spelling of safetensors and GGUF: "F32", "BF16", "Q4_K", ...
const char* dtype_name(DType dtype) noexcept;
NumberKind dtype_kind(DType dtype) noexcept;
// The format of a packed dtype, none for plain numbers.
std::optional<BlockFormat> block_format(DType dtype) noexcept;

// One table for all containers. By the name in a header of safetensors, by PyTorch's names of a
// storage ("torch.FloatStorage") and of a dtype ("torch.float8_e4m3fn"), by ggml's number.
std::optional<DType> safetensors_dtype(std::string_view name) noexcept;
std::optional<DType> torch_storage_dtype(std::string_view global) noexcept;
std::optional<DType> torch_dtype(std::string_view global) noexcept;
std::optional<DType> ggml_dtype_of(std::uint32_t number) noexcept;
int ggml_number(DType dtype) noexcept;      // -1: it has none
bool in_safetensors(DType dtype) noexcept;  // whether a file of that kind may have it
// "F64, F32, ... or C64": what each of them reads, for messages.
std::string safetensors_dtypes();
std::string torch_dtypes();
std::string ggml_dtypes();

}  // namespace sam_rlx
