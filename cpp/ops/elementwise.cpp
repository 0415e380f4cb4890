#include "ops/elementwise.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

// out = a + b, where b repeats every b.numel() numbers. out may be a.
void add_to(Context& ctx, ConstView a, ConstView b, float* out) {
  const std::int64_t total = a.numel(), period = b.numel();
  if (total == 0) return;
  if (period == 0 || total % period != 0) {
    fail("add", "second shape that repeats over " + a.shape.str(), b.shape.str());
  }
  parallel_for(ctx.num_threads, total, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    while (begin < end) {
      const std::int64_t offset = begin % period;
      const std::int64_t count = std::min(end - begin, period - offset);
      const float* const x = a.data + begin;
      const float* const y = b.data + offset;
      float* const z = out + begin;
      for (std::int64_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
      begin += count;
    }
  });
}

}  // namespace

View add(Context& ctx, ConstView a, ConstView b) {
  const View out = ctx.workspace.floats(a.shape);
  add_to(ctx, a, b, out.data);
  return out;
}

void add_(Context& ctx, View a, ConstView b) { add_to(ctx, a, b, a.data); }

void copy_(Context& ctx, View to, ConstView from) {
  if (to.numel() != from.numel()) fail("copy_", to.shape.str(), from.shape.str());
  if (to.data == from.data) return;
  parallel_for(ctx.num_threads, to.numel(), kGrain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::memcpy(to.data + begin, from.data + begin,
                             static_cast<std::size_t>(end - begin) * sizeof(float));
               });
}

}  // namespace sam_rlx
