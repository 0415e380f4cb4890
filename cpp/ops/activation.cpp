#include "ops/activation.h"

#include "core/parallel.h"
#include "kernels/kernel_table.h"

namespace sam_rlx {

void activate_row_(const KernelTable& kernels, Activation activation, View x) noexcept {
  const std::int64_t count = x.numel();
  if (activation == Activation::kGelu) {
    kernels.gelu(x.data, count);
  } else if (activation == Activation::kRelu) {
    for (std::int64_t i = 0; i < count; ++i) x.data[i] = x.data[i] < 0.0F ? 0.0F : x.data[i];
  }
}

void activation_(Context& ctx, Activation activation, View x) {
  constexpr std::int64_t kGrain = 1 << 14;  // docs/develop/optimizations.md: work-items
  if (activation == Activation::kNone) return;
  const std::int64_t work = activation == Activation::kGelu ? kFunctionWork : kNumberWork;
  parallel_for({ctx.num_threads, x.numel(), kGrain, work},
               [&](std::int64_t begin, std::int64_t end, int) {
                 activate_row_(ctx.kernels, activation, {x.data + begin, Shape{end - begin}});
               });
}

}  // namespace sam_rlx
