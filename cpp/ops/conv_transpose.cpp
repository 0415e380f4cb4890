#include "ops/conv_transpose.h"

#include "ops/packed_gemm.h"

namespace sam_rlx {

PackedConvTranspose pack_conv_transpose2x2(const KernelTable& kernels, ConstView weight,
                                           ConstView bias) {
  const std::int64_t in = weight.shape[0], channels = weight.shape[1];
  if (weight.shape != Shape{in, channels, 2, 2} || bias.numel() != channels) {
    fail("pack_conv_transpose2x2", "a weight (in, out, 2, 2) and its bias", weight.shape.str());
  }
  PackedConvTranspose result;
  result.bias = Tensor({2 * channels});
  for (std::int64_t dy = 0; dy < 2; ++dy) {
    Tensor rows({2 * channels, in});
    for (std::int64_t r = 0; r < 2 * channels; ++r) {
      const std::int64_t dx = r / channels, c = r % channels;
      result.bias.data()[r] = bias.data[c];
      for (std::int64_t i = 0; i < in; ++i) {
        rows.data()[r * in + i] = weight.data[(i * channels + c) * 4 + 2 * dy + dx];
      }
    }
    result.rows[static_cast<std::size_t>(dy)] = pack_matrix(kernels, rows);
  }
  return result;
}

void conv_transpose2x2(Context& ctx, ConstView x, const PackedConvTranspose& weight,
                       Activation activation, View out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t mr = kernels.gemm_mr, nr = kernels.gemm_nr;
  const std::int64_t n = weight.rows[0].rows, k = weight.rows[0].cols;
  if (weight.rows[0].kernels != &kernels) {
    fail_internal("conv_transpose2x2: weight packed for another table");
  }
  if (x.shape.rank() != 4 || x.shape.last() != k) {
    fail("conv_transpose2x2", "a map (B, H, W, " + std::to_string(k) + ")", x.shape.str());
  }
  const std::int64_t lines = x.shape[0] * x.shape[1], width = x.shape[2];
  const Shape expected{x.shape[0], 2 * x.shape[1], 2 * width, n / 2};
  if (out.shape != expected) fail("conv_transpose2x2: result", expected.str(), out.shape.str());
  if (out.numel() == 0) return;

  // A task is a run of positions of one line. What they become is, in each of the two lines of the
  // result, one run of numbers.
  const std::int64_t k_block = std::min<std::int64_t>(k, kernels.gemm_kc);
  const std::int64_t run = std::min(near_rows(kernels, 4 * k_block, mr), round_up(width, mr));
  const std::int64_t runs = (width + run - 1) / run;
  const std::int64_t tasks = lines * runs, work = lines * width * n * k;
  const int threads = threads_for(ctx.num_threads, work);
  const Workspace::Scope scratch(ctx.workspace);
  float* const buffers = ctx.workspace.array<float>(threads * run * k_block);
  const auto source = whole_rows(x.data, k);

  parallel_for({ctx.num_threads, tasks, 1, work / tasks},
               [&](std::int64_t task, std::int64_t, int thread) {
                 const std::int64_t line = task / runs, first = task % runs * run;
                 GemmArgs g;
                 g.m = std::min(run, width - first);
                 g.n = n;
                 float* const packed = buffers + thread * run * k_block;
                 g.c_row_stride = n;
                 for (std::int64_t p0 = 0; p0 < k; p0 += k_block) {
                   g.k = std::min(k_block, k - p0);
                   g.a = left_panels(kernels, packed, g.k);
                   g.accumulate = p0 > 0;
                   pack_segments(kernels, source, line * width + first, g.m, p0, g.k, packed);
                   if (p0 + g.k == k) {
                     g.column_bias = weight.bias.data();
                     g.activation = gemm_activation(activation);
                   }
                   for (std::int64_t dy = 0; dy < 2; ++dy) {
                     const float* const panels = weight.rows[static_cast<std::size_t>(dy)].floats();
                     g.b = right_panels(kernels, panels + p0 * nr, k);
                     g.c = out.data + ((2 * line + dy) * width + first) * n;
                     kernels.gemm(g);
                   }
                 }
               });
}

}  // namespace sam_rlx
