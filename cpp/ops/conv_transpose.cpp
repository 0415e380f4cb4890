#include "ops/conv_transpose.h"

#include "ops/packed_gemm.h"

namespace sam_rlx {

PackedConvTranspose pack_conv_transpose2x2(const KernelTable& kernels, ConstView weight,
                                           ConstView bias, WeightFormat format) {
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
    result.rows[static_cast<std::size_t>(dy)] = pack_matrix(kernels, rows, format);
  }
  return result;
}

void conv_transpose2x2(Context& ctx, ConstView x, const PackedConvTranspose& weight,
                       Activation activation, View out) {
  const KernelTable& kernels = ctx.kernels;
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
  const Products products = weight.rows[0].products();
  const std::int64_t tile = products == Products::kBFloat16 ? kBFloat16Rows : kernels.gemm_mr;
  const std::int64_t k_block = products == Products::kBFloat16 ? round_up(k, kBFloat16Depth)
                               : products == Products::kInt16
                                   ? k
                                   : std::min<std::int64_t>(k, kernels.gemm_kc);
  const std::int64_t bytes = products == Products::kFloat32 ? 4 : 2;
  const std::int64_t run =
      std::min(near_rows(kernels, bytes * k_block, tile), round_up(width, tile));
  const std::int64_t runs = (width + run - 1) / run;
  const std::int64_t tasks = lines * runs, work = lines * width * n * k;
  const int threads = threads_for(ctx.num_threads, work);
  const Workspace::Scope scratch(ctx.workspace);
  const auto source = whole_rows(x.data, k);
  const bool of_int16 = products == Products::kInt16;
  const Int16Rows* const int16 = of_int16 ? int16_rows(ctx, run, k, threads) : nullptr;
  // Of rows, and of a widened panel.
  const std::int64_t size = of_int16 ? 0 : (run + kernels.gemm_nr) * k_block;
  float* const buffers = ctx.workspace.array<float>(threads * size);

  parallel_for({ctx.num_threads, tasks, 1, work / tasks}, [&](std::int64_t task, std::int64_t,
                                                              int thread) {
    const std::int64_t line = task / runs, first = task % runs * run;
    GemmArgs g;
    g.m = std::min(run, width - first);
    g.n = n;
    float* const packed = buffers + thread * size;
    g.c_row_stride = n;
    const auto result = [&](std::size_t dy) {
      return out.data + ((2 * line + static_cast<std::int64_t>(dy)) * width + first) * n;
    };
    // multiply(rows) makes one of the two lines, with all inner indices at once.
    const auto lines_of = [&](auto multiply) {
      g.k = k;
      g.column_bias = weight.bias.data();
      g.activation = gemm_activation(activation);
      for (std::size_t dy = 0; dy < 2; ++dy) {
        g.c = result(dy);
        multiply(weight.rows[dy]);
      }
    };
    if (products == Products::kBFloat16) {
      auto* const halves = reinterpret_cast<std::uint16_t*>(packed);
      pack_bfloat16_segments(kernels, source, line * width + first, g.m, halves);
      lines_of([&](const PackedMatrix& rows) {
        const auto* const panels = static_cast<const std::uint16_t*>(rows.bytes.get());
        kernels.bfloat16_gemm({g, halves, k_block, panels});
      });
      return;
    }
    if (products == Products::kInt16) {
      const Int16Rows& integers = int16[thread];
      pack_int16_segments(kernels, source, line * width + first, g.m, 0, k, integers);
      lines_of([&](const PackedMatrix& rows) {
        const auto* const panels = static_cast<const std::int16_t*>(rows.bytes.get());
        kernels.int16_gemm({g, integers.numbers, integers.scale, panels, k, rows.scales.data()});
      });
      return;
    }
    for (std::int64_t p0 = 0; p0 < k; p0 += k_block) {
      g.k = std::min(k_block, k - p0);
      g.a = left_panels(kernels, packed, g.k);
      g.accumulate = p0 > 0;
      pack_segments(kernels, source, line * width + first, g.m, p0, g.k, packed);
      if (p0 + g.k == k) {
        g.column_bias = weight.bias.data();
        g.activation = gemm_activation(activation);
      }
      for (std::size_t dy = 0; dy < 2; ++dy) {
        g.c = result(dy);
        multiply_packed(kernels, panels_of(weight.rows[dy]), {0, p0}, g, packed + run * k_block);
      }
    }
  });
}

}  // namespace sam_rlx
