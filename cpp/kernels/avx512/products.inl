// What objects of the table have in common. Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/base.inl"
// clang-format on

// docs/develop/optimizations.md: register-tile, long-blocks, fetch-ahead, third-from-memory,
// last-rows.
constexpr int kMr = 14;
constexpr int kMaxKc = 768;
constexpr bool kPrefetchPanel = false;
constexpr int kPrefetchSteps = 72;  // a weight comes from beyond the second-level cache
constexpr bool kThirdFromMemory = true;
constexpr bool kByLane = false;
constexpr int kLastRows = 5;

#include "kernels/bodies/products.inl"
