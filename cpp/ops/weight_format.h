#pragma once

#include <string>

namespace sam_rlx {

// How a packed weight is held, and with it what a product with it computes.
enum class WeightFormat {
  kFloat32,
  kBFloat16,  // the upper halves of float32: widened while they are multiplied, or inputs become
              // such halves too, where the processor multiplies these faster; or both become
              // integers of 16 bits, where it multiplies those faster
  kInt8,      // bytes and one scale a row; inputs become bytes too, see ops/linear.h
  kBlocks,    // as a GGUF file packs them; the product is that of the unpacked numbers, to the bit
};

// "float32", "bfloat16", "int8". Raises UnsupportedError for other names.
WeightFormat weight_format_named(const std::string& name);
const char* weight_format_name(WeightFormat format);

}  // namespace sam_rlx
