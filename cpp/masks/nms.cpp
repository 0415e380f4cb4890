#include "masks/nms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sam_rlx {

std::vector<std::int64_t> nms(const float* boxes, const float* scores, std::int64_t count,
                              double iou_threshold) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  // Not-a-number comes first, as in PyTorch's sort.
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] > scores[b] || (std::isnan(scores[a]) && !std::isnan(scores[b]));
  });
  const auto area = [&](const float* box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  std::vector<std::int64_t> kept;
  std::vector<char> gone(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (gone[i] != 0) continue;
    kept.push_back(order[i]);
    const float* const a = boxes + 4 * order[i];
    const float a_area = area(a);
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (gone[j] != 0) continue;
      const float* const b = boxes + 4 * order[j];
      const float width = std::max(0.0F, std::min(a[2], b[2]) - std::max(a[0], b[0]));
      const float height = std::max(0.0F, std::min(a[3], b[3]) - std::max(a[1], b[1]));
      const float shared = width * height;
      const float iou = shared / (a_area + area(b) - shared);
      gone[j] = static_cast<double>(iou) > iou_threshold ? 1 : 0;
    }
  }
  return kept;
}

}  // namespace sam_rlx
