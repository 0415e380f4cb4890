#include "ops/squeeze_excite.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

// A vector (C,) for each map of x.
void check_channels(const char* where, ConstView x, ConstView channels) {
  if (x.shape.rank() != 4) fail(where, "a map (B, H, W, C)", x.shape.str());
  const Shape expected{x.shape[0], x.shape[3]};
  if (channels.shape != expected) fail(where, expected.str(), channels.shape.str());
}

}  // namespace

void channel_means(Context& ctx, ConstView x, View out) {
  check_channels("channel_means", x, out);
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  if (height * width == 0) fail("channel_means", "a map with positions", x.shape.str());
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t rows = x.shape[0] * height;
  const View sums = ctx.workspace.floats({rows, channels});
  parallel_for({ctx.num_threads, rows, 1, width * channels * kNumberWork},
               [&](std::int64_t row, std::int64_t, int) {
                 const float* from = x.data + row * width * channels;
                 float* const sum = sums.data + row * channels;
                 std::fill_n(sum, channels, 0.0F);
                 for (std::int64_t i = 0; i < width; ++i, from += channels) {
                   for (std::int64_t c = 0; c < channels; ++c) sum[c] += from[c];
                 }
               });
  const auto positions = static_cast<double>(height * width);
  auto* const total = ctx.workspace.array<double>(channels);
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    std::fill_n(total, channels, 0.0);
    for (std::int64_t y = 0; y < height; ++y) {
      const float* const sum = sums.data + (b * height + y) * channels;
      for (std::int64_t c = 0; c < channels; ++c) total[c] += static_cast<double>(sum[c]);
    }
    std::transform(total, total + channels, out.data + b * channels,
                   [&](double sum) { return static_cast<float>(sum / positions); });
  }
}

void gate_channels_(Context& ctx, View x, ConstView logits) {
  check_channels("gate_channels_", x, logits);
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  const Workspace::Scope scratch(ctx.workspace);
  const View gates = ctx.workspace.floats(logits.shape);
  std::transform(logits.data, logits.data + logits.numel(), gates.data,
                 [](float logit) { return 1.0F / (1.0F + std::exp(-logit)); });
  parallel_for({ctx.num_threads, x.shape[0] * height, 1, width * channels * kNumberWork},
               [&](std::int64_t row, std::int64_t, int) {
                 const float* const gate = gates.data + row / height * channels;
                 float* to = x.data + row * width * channels;
                 for (std::int64_t i = 0; i < width; ++i, to += channels) {
                   for (std::int64_t c = 0; c < channels; ++c) to[c] *= gate[c];
                 }
               });
}

}  // namespace sam_rlx
