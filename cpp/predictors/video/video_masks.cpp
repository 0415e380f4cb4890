#include "predictors/video/video_masks.h"

#include <algorithm>
#include <bit>

#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr float kSuppressedLogit = -10.0F;
constexpr std::int64_t kMaskGrain = 1 << 12;

}  // namespace

void apply_non_overlapping_constraints_(Context& ctx, View logits) {
  const std::int64_t count = logits.shape[0], positions = logits.shape[1] * logits.shape[2];
  if (count < 2) return;
  parallel_for({ctx.num_threads, positions, kMaskGrain, 2 * count * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   std::int64_t best = 0;
                   for (std::int64_t k = 1; k < count; ++k) {
                     if (logits.data[k * positions + i] > logits.data[best * positions + i])
                       best = k;
                   }
                   for (std::int64_t k = 0; k < count; ++k) {
                     float& logit = logits.data[k * positions + i];
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
