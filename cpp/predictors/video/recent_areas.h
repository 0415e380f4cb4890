#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sam_rlx {

// Areas of the masks of an object on the frames that it was tracked on.
class RecentAreas {
 public:
  static constexpr std::int64_t kFrames = 300;  // of the last frames, those count
  static constexpr std::size_t kAreas = 10;     // that show it, the last so many

  struct Area {
    std::int64_t number = 0;  // of the frame among those that it was tracked on
    std::int64_t pixels = 0;  // at least 1
  };

  RecentAreas() = default;
  RecentAreas(std::int64_t count, std::vector<Area> areas)
      : count_(count), areas_(std::move(areas)) {}

  void add(std::int64_t pixels);
  // None: it was not seen.
  std::optional<double> median() const;

  std::int64_t count() const { return count_; }  // of frames, those without a pixel too
  const std::vector<Area>& areas() const { return areas_; }

 private:
  std::int64_t count_ = 0;
  std::vector<Area> areas_;
};

}  // namespace sam_rlx
