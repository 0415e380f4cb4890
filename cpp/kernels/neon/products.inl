// What objects of the table have in common. Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/base.inl"
// clang-format on

constexpr int kMaxKc = 768;
constexpr bool kPrefetchPanel = false;
constexpr int kPrefetchSteps = 0;
constexpr bool kThirdFromMemory = false;
constexpr bool kByLane = true;
constexpr int kLastRows = kMr;

#include "kernels/bodies/products.inl"
