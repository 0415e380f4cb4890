#pragma once

#include <cstdint>
#include <vector>

#include "core/context.h"

namespace sam_rlx {

// Which positions of masks (K, H, W) of logits are above 0, one bit for each.
class BitMasks {
 public:
  explicit BitMasks(Context& ctx, ConstView logits);

  std::int64_t count() const { return count_; }
  std::int64_t area(std::int64_t mask) const { return areas_[static_cast<std::size_t>(mask)]; }
  std::int64_t words() const { return words_; }
  const std::uint64_t* bits(std::int64_t mask) const { return bits_.data() + mask * words_; }

 private:
  std::int64_t count_ = 0, words_ = 0;
  std::vector<std::uint64_t> bits_;
  std::vector<std::int64_t> areas_;
};

// What two masks share is divided by what they cover together, or by the smaller of the two.
enum class MaskOverlap { kOfUnion, kOfSmaller };
// IoU of each of N masks with each of M, in float32, row by row: (N, M). Empty masks have 0. Raises
// InvalidArgument when the masks have different sizes. Upstream: sam3/perflib/masks_ops.py,
// mask_iou; of the smaller mask SAM 3.1's mask_iom.
std::vector<float> mask_iou(Context& ctx, const BitMasks& a, const BitMasks& b,
                            MaskOverlap overlap = MaskOverlap::kOfUnion);

}  // namespace sam_rlx
