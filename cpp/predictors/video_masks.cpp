#include "predictors/video_masks.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/parallel.h"
#include "ops/components.h"
#include "ops/rle.h"

namespace sam_rlx {
namespace {

constexpr float kHoleLogit = 0.1F;  // upstream: a small positive score
constexpr float kSuppressedLogit = -10.0F;
constexpr std::int64_t kGrain = 1 << 12;

}  // namespace

void fill_holes_(View logits, std::int64_t max_area) {
  const std::int64_t height = logits.shape[0], width = logits.shape[1];
  RleEncoder encoder;
  encoder.start(height, width);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(width));
  for (std::int64_t y = 0; y < height; ++y) {
    const float* const line = logits.data + y * width;
    std::transform(line, line + width, row.begin(),
                   [](float logit) { return static_cast<std::uint8_t>(logit > 0.0F); });
    encoder.add_row(row.data());
  }
  const Components holes = find_components(encoder.finish(), false);
  for (const Segment& segment : holes.segments) {
    if (holes.areas[static_cast<std::size_t>(segment.label)] > max_area) continue;
    for (std::int64_t y = segment.y0; y <= segment.y1; ++y) {
      logits.data[y * width + segment.x] = kHoleLogit;
    }
  }
}

void apply_non_overlapping_constraints_(Context& ctx, View logits) {
  const std::int64_t count = logits.shape[0], places = logits.shape[1] * logits.shape[2];
  if (count < 2) return;
  parallel_for(ctx.num_threads, places, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < count; ++k) {
        if (logits.data[k * places + i] > logits.data[best * places + i]) best = k;
      }
      for (std::int64_t k = 0; k < count; ++k) {
        float& logit = logits.data[k * places + i];
        if (k != best) logit = std::min(logit, kSuppressedLogit);
      }
    }
  });
}

void round_to_bfloat16_(View values) {
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values.data[i]);
    const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
    values.data[i] = std::bit_cast<float>(rounded & 0xFFFF0000U);
  }
}

}  // namespace sam_rlx
