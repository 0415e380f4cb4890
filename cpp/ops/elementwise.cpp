#include "ops/elementwise.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // docs/develop/optimizations.md: work-items

// out = a + b, where b repeats every b.numel() numbers. out may be a.
void add_to(Context& ctx, ConstView a, ConstView b, float* out) {
  const std::int64_t total = a.numel(), period = b.numel();
  if (total == 0) return;
  if (period == 0 || total % period != 0) {
    fail("add", "second shape that repeats over " + a.shape.str(), b.shape.str());
  }
  parallel_for({ctx.num_threads, total, kGrain, kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
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

void add_scaled(Context& ctx, ConstView a, ConstView b, float factor, View out) {
  if (a.numel() != b.numel() || a.numel() != out.numel()) {
    fail("add_scaled", a.shape.str(), b.shape.str() + " and " + out.shape.str());
  }
  parallel_for({ctx.num_threads, a.numel(), kGrain, kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   out.data[i] = a.data[i] + factor * b.data[i];
                 }
               });
}

void copy_(Context& ctx, View to, ConstView from) {
  if (to.numel() != from.numel()) fail("copy_", to.shape.str(), from.shape.str());
  if (to.data == from.data) return;
  parallel_for({ctx.num_threads, to.numel(), kGrain, kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::memcpy(to.data + begin, from.data + begin,
                             static_cast<std::size_t>(end - begin) * sizeof(float));
               });
}

void round_to_bfloat16_(View values) {
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values.data[i]);
    const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
    values.data[i] = std::bit_cast<float>(rounded & 0xFFFF0000U);
  }
}

void transpose(Context& ctx, ConstView x, View out) {
  if (x.shape.rank() != 2) fail("transpose", "a matrix (R, C)", x.shape.str());
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const Shape expected{cols, rows};
  if (out.shape != expected) fail("transpose: result", expected.str(), out.shape.str());
  // Blocks of rows whose part of a result row is some cache lines.
  constexpr std::int64_t kRows = 64;  // docs/develop/optimizations.md: work-items
  const std::int64_t grain = std::max(kRows, kGrain / std::max<std::int64_t>(cols, 1));
  parallel_for({ctx.num_threads, rows, grain / kRows * kRows, cols * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; i += kRows) {
                   ctx.kernels.transpose_block(x.data + i * cols, cols, std::min(kRows, end - i),
                                               cols, out.data + i, rows);
                 }
               });
}

}  // namespace sam_rlx
