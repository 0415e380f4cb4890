#include "predictors/video/recent_areas.h"

#include <algorithm>

namespace sam_rlx {

void RecentAreas::add(std::int64_t pixels) {
  if (pixels > 0) {
    if (areas_.size() == kAreas) areas_.erase(areas_.begin());
    areas_.push_back({count_, pixels});
  }
  ++count_;
}

std::optional<double> RecentAreas::median() const {
  std::vector<double> recent;
  for (const Area& area : areas_) {
    if (area.number >= count_ - kFrames) recent.push_back(static_cast<double>(area.pixels));
  }
  if (recent.empty()) return std::nullopt;
  std::sort(recent.begin(), recent.end());
  const std::size_t half = recent.size() / 2;
  if (recent.size() % 2 == 1) return recent[half];
  return (recent[half - 1] + recent[half]) / 2.0;
}

}  // namespace sam_rlx
