#include "ops/mask_upscaling.h"

#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {

Tensor fold_conv_transpose2x2(const KernelTable& kernels, ConstView weight) {
  const std::int64_t in = weight.shape[0], out = weight.shape[1], mr = kernels.gemm_mr;
  SAM_RLX_DCHECK(weight.shape == (Shape{in, out, 2, 2}));
  Tensor columns({in, 4 * out});
  std::vector<const float*> pointers;
  for (std::int64_t i = 0; i < in; ++i) {
    pointers.push_back(columns.data() + i * 4 * out);
    for (std::int64_t r = 0; r < 4 * out; ++r) {
      columns.data()[i * 4 * out + r] = weight.data[(i * out + r % out) * 4 + r / out];
    }
  }
  Tensor packed({round_up(4 * out, mr), in});
  kernels.pack_a_columns(pointers.data(), in, 4 * out, packed.data(), in * mr);
  return packed;
}

Tensor repeat_bias2x2(ConstView bias) {
  Tensor repeated({4 * bias.numel()});
  for (std::int64_t i = 0; i < repeated.numel(); ++i) {
    repeated.data()[i] = bias.data[i % bias.numel()];
  }
  return repeated;
}

namespace {

// The sides of a map (2^n H, 2^n W, C) over those of its rows (H, 4^n C, W): 2 or 4.
std::int64_t positions_factor(const char* where, const Shape& map, const Shape& rows) {
  const std::int64_t factor = rows[0] == 0 ? 0 : map[0] / rows[0];
  const Shape expected{rows[0] * factor, rows[2] * factor, map[2]};
  if ((factor != 2 && factor != 4) || map != expected || rows[1] != factor * factor * map[2]) {
    fail(where, "a map of two or four times the sides of " + rows.str(), map.str());
  }
  return factor;
}

// Where the block `d` of row `y` begins in the map.
std::int64_t position_offset(const Shape& map, std::int64_t factor, std::int64_t y,
                             std::int64_t d) {
  const std::int64_t coarse = factor == 4 ? d / 4 : 0, fine = d % 4;
  const std::int64_t row = factor * y + 2 * (coarse / 2) + fine / 2;
  const std::int64_t column = 2 * (coarse % 2) + fine % 2;
  return (row * map[1] + column) * map[2];
}

}  // namespace

void split_positions(Context& ctx, ConstView map, View out) {
  const std::int64_t width = out.shape[2], channels = map.shape[2];
  const std::int64_t factor = positions_factor("split_positions", map.shape, out.shape);
  parallel_for({ctx.num_threads, out.shape[0], 1, factor * factor * channels * width * kNumberWork},
               [&](std::int64_t y, std::int64_t, int) {
                 for (std::int64_t d = 0; d < factor * factor; ++d) {
                   ctx.kernels.transpose_block(map.data + position_offset(map.shape, factor, y, d),
                                               factor * channels, width, channels,
                                               out[y].data + d * channels * width, width);
                 }
               });
}

void merge_positions(Context& ctx, ConstView rows, View map) {
  const std::int64_t width = rows.shape[2], channels = map.shape[2];
  const std::int64_t factor = positions_factor("merge_positions", map.shape, rows.shape);
  parallel_for(
      {ctx.num_threads, rows.shape[0], 1, factor * factor * channels * width * kNumberWork},
      [&](std::int64_t y, std::int64_t, int) {
        for (std::int64_t d = 0; d < factor * factor; ++d) {
          ctx.kernels.transpose_block(rows[y].data + d * channels * width, width, channels, width,
                                      map.data + position_offset(map.shape, factor, y, d),
                                      factor * channels);
        }
      });
}

namespace {

// Scratch of one thread for one row of the map, channels first: (channels, W).
struct RowScratch {
  float* map;     // packed (C, W)
  float* first;   // (4 * C1, W)
  float* second;  // (4 * C2, W)
  float* masks;   // (4, K, W)
};

// Positions (4y + 2 dy1 + dy2, 4x + 2 dx1 + dx2) for all x, d = 2 dy + dx.
struct PositionRow {
  std::int64_t y, d1, d2;
};

// hyper . upscaled for the positions of a row.
void mask_positions(const KernelTable& kernels, const MaskUpscalingArgs& args,
                    const PositionRow& position, const RowScratch& s, View masks) {
  const std::int64_t width = args.map.shape[1];
  const std::int64_t c2 = args.hyper.shape[1], count = args.hyper.shape[0];
  kernels.gemm({.m = count,
                .n = width,
                .k = c2,
                .a = left_rows(kernels, args.hyper.data, c2),
                .b = right_rows(kernels, s.second + position.d2 * c2 * width, width),
                .c = s.masks,
                .c_row_stride = width});
  const std::int64_t row = 4 * position.y + 2 * (position.d1 / 2) + position.d2 / 2;
  const std::int64_t column = 2 * (position.d1 % 2) + position.d2 % 2;
  for (std::int64_t k = 0; k < count; ++k) {
    float* const out = masks.data + (k * masks.shape[1] + row) * 4 * width + column;
    for (std::int64_t x = 0; x < width; ++x) out[4 * x] = s.masks[k * width + x];
  }
}

// The upscaled map at the positions of a row.
void store_positions(const KernelTable& kernels, const MaskUpscalingArgs& args,
                     const PositionRow& position, const RowScratch& s) {
  const std::int64_t width = args.map.shape[1], c2 = args.hyper.shape[1];
  const std::int64_t d = 4 * position.d1 + position.d2;
  kernels.transpose_block(
      s.second + position.d2 * c2 * width, width, c2, width,
      args.upscaled.data + position_offset(args.upscaled.shape, 4, position.y, d), 4 * c2);
}

// Everything that one row of the map becomes: rows 4y to 4y + 3 of each mask.
void upscale_row(const KernelTable& kernels, const MaskUpscalingArgs& args, std::int64_t y,
                 const RowScratch& s, View masks) {
  const std::int64_t width = args.map.shape[1];
  const std::int64_t channels = args.map.shape[2];
  const std::int64_t c1 = args.norm_weight.numel();
  const std::int64_t c2 = args.hyper.shape[1];
  kernels.pack_weight(args.map.data + y * width * channels, channels, width, channels, s.map);
  kernels.gemm({.m = 4 * c1,
                .n = width,
                .k = channels,
                .a = left_panels(kernels, args.weight1.data, channels),
                .b = right_panels(kernels, s.map, channels),
                .c = s.first,
                .c_row_stride = width,
                .accumulate = static_cast<bool>(args.skip1),
                .partial = args.skip1 ? args.skip1.data + y * 4 * c1 * width : nullptr,
                .partial_row_stride = width,
                .row_bias = args.bias1.data});
  for (std::int64_t d1 = 0; d1 < 4; ++d1) {
    float* const first = s.first + d1 * c1 * width;
    kernels.layer_norm_columns(first, c1, width, args.norm_weight.data, args.norm_bias.data,
                               args.norm_eps);
    kernels.gelu(first, c1 * width);
    kernels.gemm({.m = 4 * c2,
                  .n = width,
                  .k = c1,
                  .a = left_panels(kernels, args.weight2.data, c1),
                  .b = right_rows(kernels, first, width),
                  .c = s.second,
                  .c_row_stride = width,
                  .accumulate = static_cast<bool>(args.skip0),
                  .partial = args.skip0 ? args.skip0.data + (4 * y + d1) * 4 * c2 * width : nullptr,
                  .partial_row_stride = width,
                  .row_bias = args.bias2.data,
                  .activation = kGemmGelu});
    for (std::int64_t d2 = 0; d2 < 4; ++d2) {
      if (args.hyper.shape[0] > 0) mask_positions(kernels, args, {y, d1, d2}, s, masks);
      if (args.upscaled.data != nullptr) store_positions(kernels, args, {y, d1, d2}, s);
    }
  }
}

// Of upscale_row.
std::int64_t row_work(const MaskUpscalingArgs& args) {
  const std::int64_t width = args.map.shape[1], channels = args.map.shape[2];
  const std::int64_t first = args.bias1.numel(), second = args.bias2.numel();
  const std::int64_t products =
      channels * first + first * second + 4 * second * args.hyper.shape[0];
  return width * (products + (first + 4 * second) * kFunctionWork);
}

void check(const KernelTable& kernels, const MaskUpscalingArgs& args, const Shape& masks) {
  SAM_RLX_DCHECK(args.map.shape.rank() == 3 && args.hyper.shape.rank() == 2);
  const std::int64_t height = args.map.shape[0], width = args.map.shape[1];
  const std::int64_t channels = args.map.shape[2];
  const std::int64_t c1 = args.norm_weight.numel(), c2 = args.hyper.shape[1];
  const std::int64_t mr = kernels.gemm_mr;
  SAM_RLX_DCHECK(args.norm_bias.numel() == c1 && args.bias1.numel() == 4 * c1);
  SAM_RLX_DCHECK(args.weight1.shape == (Shape{round_up(4 * c1, mr), channels}));
  SAM_RLX_DCHECK(args.bias2.numel() == 4 * c2);
  SAM_RLX_DCHECK(args.weight2.shape == (Shape{round_up(4 * c2, mr), c1}));
  SAM_RLX_DCHECK(!args.skip1 || args.skip1.shape == (Shape{height, 4 * c1, width}));
  SAM_RLX_DCHECK(!args.skip0 || args.skip0.shape == (Shape{height, 16 * c2, width}));
  SAM_RLX_DCHECK(args.upscaled.data == nullptr ||
                 args.upscaled.shape == (Shape{4 * height, 4 * width, c2}));
  SAM_RLX_DCHECK(masks == (Shape{args.hyper.shape[0], 4 * height, 4 * width}));
}

}  // namespace

void upscale_masks(Context& ctx, const MaskUpscalingArgs& args, View masks) {
  const KernelTable& kernels = ctx.kernels;
  check(kernels, args, masks.shape);
  const std::int64_t width = args.map.shape[1];
  const std::int64_t channels = args.map.shape[2];
  const std::int64_t map_size = round_up(width, kernels.gemm_nr) * channels;
  const std::int64_t first_size = args.bias1.numel() * width;
  const std::int64_t second_size = args.bias2.numel() * width;
  const std::int64_t slice = map_size + first_size + second_size + args.hyper.shape[0] * width;

  const Workspace::Scope scratch(ctx.workspace);
  float* const slices = ctx.workspace.array<float>(slice * ctx.num_threads);
  parallel_for({ctx.num_threads, args.map.shape[0], 1, row_work(args)},
               [&](std::int64_t y, std::int64_t, int thread) {
                 float* const base = slices + thread * slice;
                 upscale_row(kernels, args, y,
                             {base, base + map_size, base + map_size + first_size,
                              base + map_size + first_size + second_size},
                             masks);
               });
}

}  // namespace sam_rlx
