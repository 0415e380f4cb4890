#include "ops/resize_antialias.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

// Weights of each output position over a run of input positions.
struct Taps {
  std::int64_t width = 0;  // room for the weights of one position
  std::int64_t* first = nullptr;
  std::int64_t* count = nullptr;
  float* weight = nullptr;
};

Taps make_taps(Workspace& workspace, const ResizeFilter& filter, std::int64_t in_size,
               std::int64_t out_size) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double stretch = std::max(scale, 1.0);
  const double support = filter.support * stretch;
  Taps taps;
  taps.width = 2 * static_cast<std::int64_t>(std::ceil(support)) + 1;
  taps.first = workspace.array<std::int64_t>(out_size);
  taps.count = workspace.array<std::int64_t>(out_size);
  taps.weight = workspace.array<float>(out_size * taps.width);
  for (std::int64_t i = 0; i < out_size; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const auto begin = std::max(static_cast<std::int64_t>(center - support + 0.5), std::int64_t{0});
    const auto end = std::min(static_cast<std::int64_t>(center + support + 0.5), in_size);
    taps.first[i] = begin;
    taps.count[i] = end - begin;
    const auto exact = [&](std::int64_t position) {
      return filter.weight((static_cast<double>(position) - center + 0.5) / stretch);
    };
    double total = 0.0;
    for (std::int64_t j = begin; j < end; ++j) total += exact(j);
    for (std::int64_t j = begin; j < end; ++j) {
      taps.weight[i * taps.width + j - begin] = static_cast<float>(exact(j) / total);
    }
  }
  return taps;
}

}  // namespace

void resize_bilinear_antialias(Context& ctx, ConstView planes, View out) {
  resize_antialias(ctx, planes, kTriangleFilter, out);
}

void resize_antialias(Context& ctx, ConstView planes, const ResizeFilter& filter, View out) {
  const Shape& in = planes.shape;
  const bool maps = in.rank() == 3 && out.shape.rank() == 3 && in[0] == out.shape[0];
  if (!maps || in[1] < 1 || in[2] < 1 || out.shape[1] < 1 || out.shape[2] < 1) {
    fail("resize_antialias", "two sets of non-empty planes", in.str() + " and " + out.shape.str());
  }
  constexpr std::int64_t kRowGrain = 16;  // docs/develop/optimizations.md: work-items
  const std::int64_t height = out.shape[1], width = out.shape[2];
  const Workspace::Scope scratch(ctx.workspace);
  const Taps rows = make_taps(ctx.workspace, filter, in[1], height);
  const Taps columns = make_taps(ctx.workspace, filter, in[2], width);
  const View narrow = ctx.workspace.floats({in[0], in[1], width});
  parallel_for({ctx.num_threads, in[0] * in[1], kRowGrain, width * columns.width},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   for (std::int64_t x = 0; x < width; ++x) {
                     const float* const from = planes.data + i * in[2] + columns.first[x];
                     const float* const weight = columns.weight + x * columns.width;
                     float sum = 0.0F;
                     for (std::int64_t j = 0; j < columns.count[x]; ++j) sum += from[j] * weight[j];
                     narrow.data[i * width + x] = sum;
                   }
                 }
               });
  parallel_for({ctx.num_threads, in[0] * height, kRowGrain, width * rows.width},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t y = i % height;
                   const float* from = narrow.data + (i / height * in[1] + rows.first[y]) * width;
                   float* const to = out.data + i * width;
                   std::fill_n(to, width, 0.0F);
                   for (std::int64_t j = 0; j < rows.count[y]; ++j, from += width) {
                     const float weight = rows.weight[y * rows.width + j];
                     for (std::int64_t x = 0; x < width; ++x) to[x] += weight * from[x];
                   }
                 }
               });
}

}  // namespace sam_rlx
