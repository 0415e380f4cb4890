#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// The number of float32 numbers that are whole blocks, and their bytes, of a dtype that a GGUF file
// can be written with: F32, F16, BF16 or a packed one.
bool can_quantize(DType dtype) noexcept;
std::int64_t quantized_bytes(DType dtype, std::int64_t count);

// Writes numbers, whole blocks, as `dtype` into out[quantized_bytes]. F16, BF16 and formats of
// blocks of 32 are what ggml's reference gives, to the bit; for the K formats the scales of a block
// are searched, so that the squared error is at most that of scales from the smallest and largest
// numbers. Results do not depend on the number of threads. Raises CheckpointError with `where` for
// numbers that the format cannot hold: infinity, NaN, and but for F32 and BF16 those above 65504.
void quantize(DType dtype, std::span<const float> numbers, std::byte* out, int num_threads,
              const std::string& where);

// One block of 256 numbers of Q2_K to Q6_K.
void quantize_k_block(BlockFormat format, const float* x, std::uint8_t* out) noexcept;

// The scale s that makes x close to s * q, with whole q from lowest to highest, by least squares
// from several starts. Zero for zeros.
float fit_scale(std::span<const float> x, int lowest, int highest) noexcept;

}  // namespace sam_rlx
