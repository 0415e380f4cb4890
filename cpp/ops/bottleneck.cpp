#include "ops/bottleneck.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/depthwise.h"

namespace sam_rlx {
namespace {

// Rows of the result that a thread takes at once: of the hidden map, the rows above and below are
// made once more. docs/develop/optimizations.md: work-items.
constexpr std::int64_t kLeastRows = 16;

std::int64_t band_rows(std::int64_t rows, int threads) {
  const std::int64_t parts = std::int64_t{4} * threads;
  return std::max(kLeastRows, (rows + parts - 1) / parts);
}

struct Bottleneck {
  const BottleneckArgs& args;
  ConstView x;
  View out;
  std::int64_t size, hidden;

  // Rows [begin, end) of the result of a map.
  void run(Context& ctx, std::int64_t map, std::int64_t begin, std::int64_t end) const {
    const Workspace::Scope scratch(ctx.workspace);
    const std::int64_t height = x.shape[1], width = x.shape[2], padding = size / 2;
    const std::int64_t stride = args.depthwise.stride, out_width = out.shape[2];
    // Row y of the hidden map is entry y % size.
    const View wide = ctx.workspace.floats({size, width, hidden});
    const View y = ctx.workspace.floats({out_width, hidden});
    std::int64_t made = std::max<std::int64_t>(begin * stride - padding, 0);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t top = row * stride - padding;
      for (; made < std::min(top + size, height); ++made) {
        linear(ctx, x[map][made], args.expand,
               {.bias = args.expand_bias, .activation = args.activation}, wide[made % size]);
      }
      std::array<const float*, kMaxDepthwiseSize> rows{};
      for (std::int64_t k = 0; k < size; ++k) {
        const bool inside = top + k >= 0 && top + k < height;
        rows[static_cast<std::size_t>(k)] = inside ? wide[(top + k) % size].data : nullptr;
      }
      ctx.kernels.depthwise_row({.rows = rows.data(),
                                 .size = size,
                                 .width = width,
                                 .channels = hidden,
                                 .weight = args.depthwise.weight.data,
                                 .bias = args.depthwise.bias.data,
                                 .out = y.data,
                                 .stride = stride});
      activate_row_(ctx.kernels, args.depthwise.activation, y);
      Epilogue epilogue{.bias = args.project_bias};
      if (args.residual) epilogue.residual = args.residual[map][row];
      const View to = out[map][row];
      linear(ctx, y, args.project, epilogue, to);
      activate_row_(ctx.kernels, args.last, to);
    }
  }
};

}  // namespace

void bottleneck(Context& ctx, ConstView x, const BottleneckArgs& args, View out) {
  if (x.shape.rank() != 4 || x.shape[3] != args.expand.cols) {
    fail("bottleneck", "a map (B, H, W, " + std::to_string(args.expand.cols) + ")", x.shape.str());
  }
  const std::int64_t hidden = args.expand.rows;
  const std::int64_t size = depthwise_size("bottleneck", args.depthwise, hidden);
  const ConvWindow window{size, args.depthwise.stride, size / 2};
  const Shape result{x.shape[0], window.out_size(x.shape[1]), window.out_size(x.shape[2]),
                     args.project.rows};
  if (args.project.cols != hidden) {
    fail("bottleneck: project", std::to_string(hidden) + " inputs",
         std::to_string(args.project.cols));
  }
  if (out.shape != result) fail("bottleneck: result", result.str(), out.shape.str());
  if (args.residual && args.residual.shape != result) {
    fail("bottleneck: residual", result.str(), args.residual.shape.str());
  }
  const int threads = std::max(ctx.num_threads, 1);
  const std::int64_t step = band_rows(result[1], threads);
  const std::int64_t bands = (result[1] + step - 1) / step;
  const Bottleneck op{args, x, out, size, hidden};
  ctx.workspace.reserve_threads(threads);
  parallel_for(threads, result[0] * bands, 1, [&](std::int64_t i, std::int64_t, int thread) {
    Context own{.kernels = ctx.kernels, .workspace = ctx.workspace.of_thread(thread)};
    const std::int64_t begin = i % bands * step;
    op.run(own, i / bands, begin, std::min(begin + step, result[1]));
  });
}

}  // namespace sam_rlx
