#pragma once

#include <cstdint>

#include "ops/conv.h"

namespace sam_rlx {

// What the ops with a depthwise convolution share.
constexpr std::int64_t kMaxDepthwiseSize = 15;

// The side of the kernel. Raises InvalidArgument with `where` for weights of other channels, and
// for a stride below 1.
std::int64_t depthwise_size(const char* where, const DepthwiseArgs& args, std::int64_t channels);

}  // namespace sam_rlx
