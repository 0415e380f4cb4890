#pragma once

#include <cstdint>
#include <vector>

namespace sam_rlx {

// Greedy suppression of boxes (N, 4), xyxy: in the order of descending scores, a box goes when its
// IoU with one that stays is above the threshold. Returns the indices of those that stay, in that
// order; equal scores keep the order of the input. float32 arithmetic as torchvision's.
std::vector<std::int64_t> nms(const float* boxes, const float* scores, std::int64_t count,
                              double iou_threshold);

}  // namespace sam_rlx
