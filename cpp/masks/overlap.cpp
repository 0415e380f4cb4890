#include "masks/overlap.h"

#include <algorithm>
#include <vector>

#include "core/index.h"
#include "core/parallel.h"
#include "masks/iou.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kNeverOccluded = -1;
constexpr std::int64_t kAlwaysOccluded = 100000;  // removed by hot start
constexpr std::int64_t kOverlapGrain = 1 << 12;

// Which masklet gives way to another one.
std::vector<char> find_suppressed(const OcclusionQuery& query, std::span<const float> ious,
                                  std::span<const std::int64_t> occluded) {
  const std::size_t count = occluded.size();
  std::vector<char> suppressed(count, 0);
  const auto later = [&](std::int64_t a, std::int64_t b) { return query.reverse ? a < b : a > b; };
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      if (i == j || !(ious[i * count + j] >= query.iou_threshold)) continue;
      if (later(occluded[i], occluded[j]) && occluded[j] > kNeverOccluded) suppressed[i] = 1;
    }
  }
  return suppressed;
}

// The mask with the largest logit at a position, the first of equal ones.
std::int64_t winner(ConstView masks, std::int64_t position) {
  const std::int64_t count = masks.shape[0], positions = masks.shape[1] * masks.shape[2];
  std::int64_t best = 0;
  for (std::int64_t k = 1; k < count; ++k) {
    if (masks.data[k * positions + position] > masks.data[best * positions + position]) best = k;
  }
  return best;
}

// At positions [begin, end).
void keep_largest_(View logits, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = logits.shape[0], positions = logits.shape[1] * logits.shape[2];
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t best = winner(logits, i);
    for (std::int64_t k = 0; k < count; ++k) {
      float& logit = logits.data[k * positions + i];
      if (k != best) logit = std::min(logit, kSuppressedMaskLogit);
    }
  }
}

}  // namespace

void apply_non_overlapping_constraints_(Context& ctx, View logits) {
  const std::int64_t count = logits.shape[0], positions = logits.shape[1] * logits.shape[2];
  if (count < 2) return;
  parallel_for(
      {ctx.num_threads, positions, kOverlapGrain, 2 * count * kNumberWork},
      [&](std::int64_t begin, std::int64_t end, int) { keep_largest_(logits, begin, end); });
}

void apply_non_overlapping_constraints_(View logits) {
  keep_largest_(logits, 0, logits.shape[1] * logits.shape[2]);
}

LastOccluded suppress_recently_occluded_(Context& ctx, View masks, const OcclusionQuery& query) {
  std::vector<std::int64_t> occluded;
  for (const std::int64_t obj_id : query.obj_ids) {
    const auto found = query.before.find(obj_id);
    const std::int64_t unknown = query.removed.contains(obj_id) ? kAlwaysOccluded : kNeverOccluded;
    occluded.push_back(found == query.before.end() ? unknown : found->second);
  }
  const BitMasks bits(ctx, masks);
  const std::vector<char> suppressed = find_suppressed(query, mask_iou(ctx, bits, bits), occluded);
  LastOccluded after;
  for (std::int64_t k = 0; k < bits.count(); ++k) {
    const bool is_occluded = bits.area(k) == 0 || suppressed[at(k)] != 0;
    after[query.obj_ids[at(k)]] = is_occluded ? query.frame_idx : occluded[at(k)];
    if (suppressed[at(k)] != 0) {
      const View mask = masks[k];
      std::fill_n(mask.data, mask.numel(), kSuppressedMaskLogit);
    }
  }
  return after;
}

void suppress_shrunk_masks_(Context& ctx, View masks, float shrink_threshold) {
  const std::int64_t count = masks.shape[0], positions = masks.shape[1] * masks.shape[2];
  std::vector<std::int64_t> before(at(count), 0), after(at(count), 0);
  for (std::int64_t i = 0; i < positions; ++i) {
    for (std::int64_t k = 0; k < count; ++k) {
      before[at(k)] += masks.data[k * positions + i] > 0.0F ? 1 : 0;
    }
    const std::int64_t best = winner(masks, i);
    after[at(best)] += masks.data[best * positions + i] > 0.0F ? 1 : 0;
  }
  parallel_for({ctx.num_threads, count, 1, positions * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t k = begin; k < end; ++k) {
                   const auto area = static_cast<float>(std::max<std::int64_t>(before[at(k)], 1));
                   if (static_cast<float>(after[at(k)]) / area >= shrink_threshold) continue;
                   float* const mask = masks.data + k * positions;
                   std::transform(mask, mask + positions, mask, [](float logit) {
                     return std::min(logit, kSuppressedMaskLogit);
                   });
                 }
               });
}

void keep_best_masklets_(Context& ctx, std::uint8_t* masks, std::int64_t positions,
                         std::span<const float> scores) {
  const auto count = static_cast<std::int64_t>(scores.size());
  parallel_for({ctx.num_threads, positions, kOverlapGrain, 2 * count * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   std::int64_t best = -1;
                   for (std::int64_t k = 0; k < count; ++k) {
                     if (masks[k * positions + i] == 0 || !(scores[at(k)] > 0.0F)) continue;
                     if (best < 0 || scores[at(k)] > scores[at(best)]) best = k;
                   }
                   for (std::int64_t k = 0; k < count; ++k) {
                     if (k != best) masks[k * positions + i] = 0;
                   }
                 }
               });
}

}  // namespace sam_rlx
