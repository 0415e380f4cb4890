#include "masks/polygon_fill.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

namespace sam_rlx {
namespace {

constexpr std::int64_t kFifths = 5;

struct GridPoint {
  std::int64_t u = 0, v = 0;
};

// To the nearest, as a conversion to int of a value plus a half does: below 0 it cuts upwards.
std::int64_t nearest(double value) { return static_cast<std::int64_t>(value + 0.5); }

// Calls `visit` with the points of the grid along a straight line, both ends included: one for each
// step along its longer side. They are the same ones in either direction.
template <class Visit>
void walk_line(GridPoint from, GridPoint to, const Visit& visit) {
  const std::int64_t du = std::abs(to.u - from.u), dv = std::abs(to.v - from.v);
  const bool flat = du >= dv;
  const bool backwards = flat ? from.u > to.u : from.v > to.v;
  const auto [low, high] = backwards ? std::pair(to, from) : std::pair(from, to);
  const std::int64_t steps = flat ? du : dv;
  const std::int64_t rise = flat ? high.v - low.v : high.u - low.u;
  const double slope = steps == 0 ? 0.0 : static_cast<double>(rise) / static_cast<double>(steps);
  for (std::int64_t step = 0; step <= steps; ++step) {
    const std::int64_t at = backwards ? steps - step : step;
    const double across = slope * static_cast<double>(at);
    visit(flat ? GridPoint{low.u + at, nearest(static_cast<double>(low.v) + across)}
               : GridPoint{nearest(static_cast<double>(low.u) + across), low.v + at});
  }
}

// Collects where the line crosses the middles of columns, as numbers x * height + y.
class Crossings {
 public:
  Crossings(std::int64_t height, std::int64_t width) : height_(height), width_(width) {}

  void pass(GridPoint point) {
    if (started_ && point.u != last_.u)
      cross(std::min(point.u, last_.u), std::min(point.v, last_.v));
    last_ = point;
    started_ = true;
  }

  std::vector<std::int64_t> sorted() {
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  void cross(std::int64_t u, std::int64_t v) {
    const std::int64_t middle = kFifths / 2;
    if (u < middle || (u - middle) % kFifths != 0 || (u - middle) / kFifths >= width_) return;
    const double y = (static_cast<double>(v) + 0.5) / kFifths - 0.5;
    const double inside = std::ceil(std::clamp(y, 0.0, static_cast<double>(height_)));
    found_.push_back((u - middle) / kFifths * height_ + static_cast<std::int64_t>(inside));
  }

  std::int64_t height_, width_;
  std::vector<std::int64_t> found_;
  GridPoint last_;
  bool started_ = false;
};

}  // namespace

void fill_polygon(std::span<const double> corners, std::int64_t height, std::int64_t width,
                  std::uint8_t* mask) {
  std::vector<GridPoint> points;
  for (std::size_t at = 0; at + 1 < corners.size(); at += 2) {
    points.push_back({nearest(corners[at] * kFifths), nearest(corners[at + 1] * kFifths)});
  }
  Crossings crossings(height, width);
  for (std::size_t at = 0; at < points.size(); ++at) {
    walk_line(points[at], points[(at + 1) % points.size()],
              [&](GridPoint point) { crossings.pass(point); });
  }
  std::vector<std::int64_t> found = crossings.sorted();
  if (found.size() % 2 != 0) found.push_back(height * width);
  for (std::size_t at = 0; at < found.size(); at += 2) {
    for (std::int64_t pixel = found[at]; pixel < found[at + 1]; ++pixel) {
      mask[pixel % height * width + pixel / height] = 1;
    }
  }
}

}  // namespace sam_rlx
