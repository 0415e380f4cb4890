#include "ops/norm.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"

namespace sam_rlx {
namespace {

// Sums over the positions of a chunk, one for each channel: mean and sum of squared distances to
// it.
void chunk_moments(const float* x, std::int64_t positions, std::int64_t channels, float* mean,
                   float* squares) {
  std::fill_n(mean, channels, 0.0F);
  std::fill_n(squares, channels, 0.0F);
  for (std::int64_t i = 0; i < positions; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) mean[c] += x[i * channels + c];
  }
  for (std::int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<float>(positions);
  for (std::int64_t i = 0; i < positions; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float distance = x[i * channels + c] - mean[c];
      squares[c] += distance * distance;
    }
  }
}

// Count, mean and sum of squared distances to it. Chan, Golub and LeVeque, 1983.
struct Moments {
  double count = 0.0, mean = 0.0, squares = 0.0;
  void join(double other_count, double other_mean, double other_squares) {
    const double total = count + other_count, delta = other_mean - mean;
    squares += other_squares + delta * delta * count * other_count / total;
    mean += delta * other_count / total;
    count = total;
  }
};

}  // namespace

void layer_norm(Context& ctx, ConstView x, ConstView weight, ConstView bias, float eps, View out) {
  constexpr std::int64_t kGrain = 1 << 14;  // docs/develop/optimizations.md: work-items
  if (x.shape.rank() == 0 || weight.numel() != x.shape.last() || bias.numel() != x.shape.last()) {
    fail("layer_norm", "weight and bias for " + x.shape.str(),
         weight.shape.str() + " and " + bias.shape.str());
  }
  if (out.shape != x.shape) fail("layer_norm: result", x.shape.str(), out.shape.str());
  const std::int64_t cols = x.shape.last();
  if (cols == 0) return;
  parallel_for({ctx.num_threads, x.shape.rows(), std::max<std::int64_t>(1, kGrain / cols),
                2 * cols * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 ctx.kernels.layer_norm_rows(x.data + begin * cols, end - begin, cols, weight.data,
                                             bias.data, eps, out.data + begin * cols);
               });
}

void group_norm_affine(Context& ctx, ConstView x, const GroupNormArgs& args, View scale,
                       View shift) {
  constexpr std::int64_t kGrain = 1 << 14;  // part of the result's definition; not tuned
  const std::int64_t channels = x.shape.rank() == 0 ? 0 : x.shape.last();
  if (args.num_groups < 1 || channels < 1 || channels % args.num_groups != 0 || x.numel() == 0 ||
      args.weight.numel() != channels || args.bias.numel() != channels ||
      scale.numel() != channels || shift.numel() != channels) {
    fail("group_norm",
         std::to_string(args.num_groups) + " groups, weight and bias for the channels of " +
             x.shape.str(),
         args.weight.shape.str() + " and " + args.bias.shape.str());
  }
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t positions = x.shape.rows(),
                     chunk = std::max<std::int64_t>(1, kGrain / channels);
  const std::int64_t chunks = (positions + chunk - 1) / chunk;
  float* const moments = ctx.workspace.array<float>(chunks * 2 * channels);
  parallel_for({ctx.num_threads, positions, chunk, 2 * channels * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 float* const mean = moments + begin / chunk * 2 * channels;
                 chunk_moments(x.data + begin * channels, end - begin, channels, mean,
                               mean + channels);
               });
  const std::int64_t size = channels / args.num_groups;
  for (std::int64_t g = 0; g < args.num_groups; ++g) {
    Moments all;
    for (std::int64_t i = 0; i < chunks; ++i) {
      const float* const mean = moments + i * 2 * channels;
      const auto count = static_cast<double>(std::min(chunk, positions - i * chunk));
      for (std::int64_t c = g * size; c < (g + 1) * size; ++c) {
        all.join(count, mean[c], mean[channels + c]);
      }
    }
    const double inverse = 1.0 / std::sqrt(all.squares / all.count + static_cast<double>(args.eps));
    for (std::int64_t c = g * size; c < (g + 1) * size; ++c) {
      const double factor = inverse * args.weight.data[c];
      scale.data[c] = static_cast<float>(factor);
      shift.data[c] = static_cast<float>(args.bias.data[c] - all.mean * factor);
    }
  }
}

void relu_affine_(Context& ctx, View x, ConstView scale, ConstView shift) {
  constexpr std::int64_t kGrain = 1 << 14;  // docs/develop/optimizations.md: work-items
  const std::int64_t channels = scale.numel();
  if (channels < 1 || shift.numel() != channels || x.shape.rank() == 0 ||
      x.shape.last() != channels) {
    fail("relu_affine_", "scale and shift for the channels of " + x.shape.str(),
         scale.shape.str() + " and " + shift.shape.str());
  }
  parallel_for({ctx.num_threads, x.shape.rows(), std::max<std::int64_t>(1, kGrain / channels),
                channels * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   float* const row = x.data + i * channels;
                   for (std::int64_t c = 0; c < channels; ++c) {
                     const float y = scale.data[c] * row[c] + shift.data[c];
                     row[c] = y < 0.0F ? 0.0F : y;
                   }
                 }
               });
}

}  // namespace sam_rlx
