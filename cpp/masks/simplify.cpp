#include "masks/simplify.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>

namespace sam_rlx {
namespace {

constexpr std::int32_t kCell = 8;  // pixels; borders have about one corner a pixel

struct Node {
  Corner corner;
  std::size_t ring = 0, previous = 0, next = 0;
  std::uint32_t version = 0;  // grows when a neighbour changes
  bool is_there = true;
};

struct Candidate {
  double error = 0;
  std::size_t node = 0;
  std::uint32_t version = 0;

  // The smallest error first, of equal ones the first corner.
  bool operator<(const Candidate& other) const {
    return std::pair(error, node) > std::pair(other.error, other.node);
  }
};

// Twice the area of a triangle, signed.
std::int64_t side_of(Corner a, Corner b, Corner c) {
  return std::int64_t{b.x - a.x} * (c.y - a.y) - std::int64_t{b.y - a.y} * (c.x - a.x);
}

// Squared distance of a corner from the line between two others.
double squared_distance(Corner a, Corner b, Corner p) {
  const double dx = b.x - a.x, dy = b.y - a.y, px = p.x - a.x, py = p.y - a.y;
  const double length = dx * dx + dy * dy;
  const double along = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.0, 1.0) : 0.0;
  const double ex = px - along * dx, ey = py - along * dy;
  return ex * ex + ey * ey;
}

class Simplifier {
 public:
  Simplifier(const std::vector<Outline>& outlines, double tolerance)
      : most_(tolerance * tolerance) {
    for (const Outline& outline : outlines) {
      for (const Ring& ring : outline) add(ring);
    }
    fill_cells();
  }

  void run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) offer(i);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const Node& node = nodes_[best.node];
      const bool is_old = !node.is_there || node.version != best.version;
      if (is_old || sizes_[node.ring] <= 3 || !is_alone(best.node)) continue;
      leave_out(best.node);
    }
  }

  // The corners that are left of rings in the order in which they came.
  void write(std::vector<Outline>& outlines) const {
    std::size_t first = 0;
    for (Outline& outline : outlines) {
      for (Ring& ring : outline) {
        const std::size_t end = first + ring.size();
        ring.clear();
        for (std::size_t i = first; i < end; ++i) {
          if (nodes_[i].is_there) ring.push_back(nodes_[i].corner);
        }
        first = end;
      }
    }
  }

 private:
  void add(const Ring& ring) {
    const std::size_t first = nodes_.size(), count = ring.size();
    for (std::size_t i = 0; i < count; ++i) {
      nodes_.push_back(
          {ring[i], sizes_.size(), first + (i + count - 1) % count, first + (i + 1) % count});
    }
    starts_.push_back(first);
    sizes_.push_back(count);
  }

  // A grid over all corners, so that those in a triangle are found without looking at others.
  void fill_cells() {
    if (nodes_.empty()) return;
    Corner low = nodes_.front().corner, high = low;
    for (const Node& node : nodes_) {
      low = {std::min(low.x, node.corner.x), std::min(low.y, node.corner.y)};
      high = {std::max(high.x, node.corner.x), std::max(high.y, node.corner.y)};
    }
    origin_ = low;
    columns_ = (high.x - low.x) / kCell + 1;
    const std::int32_t rows = (high.y - low.y) / kCell + 1;
    cells_.resize(static_cast<std::size_t>(columns_) * static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      cells_[cell(nodes_[i].corner.x, nodes_[i].corner.y)].push_back(i);
    }
  }
  std::size_t cell(std::int32_t x, std::int32_t y) const {
    return static_cast<std::size_t>((y - origin_.y) / kCell) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>((x - origin_.x) / kCell);
  }

  // Puts a corner into the queue if its line would be near enough to all that it replaces.
  void offer(std::size_t i) {
    const Node& node = nodes_[i];
    const Corner a = nodes_[node.previous].corner, b = nodes_[node.next].corner;
    const std::size_t first = starts_[node.ring];
    const std::size_t end = node.ring + 1 < starts_.size() ? starts_[node.ring + 1] : nodes_.size();
    double error = 0;
    for (std::size_t j = node.previous; j != node.next; j = j + 1 == end ? first : j + 1) {
      error = std::max(error, squared_distance(a, b, nodes_[j].corner));
      if (error > most_) return;
    }
    queue_.push({error, i, node.version});
  }

  // Whether no other corner lies in the triangle of a corner and its neighbours.
  bool is_alone(std::size_t i) const {
    const Node& node = nodes_[i];
    Corner a = nodes_[node.previous].corner, b = node.corner, c = nodes_[node.next].corner;
    if (side_of(a, b, c) < 0) std::swap(a, c);
    const auto [left, right] = std::minmax({a.x, b.x, c.x});
    const auto [top, bottom] = std::minmax({a.y, b.y, c.y});
    const auto is_inside = [&](Corner p) {
      return p.x >= left && p.x <= right && p.y >= top && p.y <= bottom && side_of(a, b, p) >= 0 &&
             side_of(b, c, p) >= 0 && side_of(c, a, p) >= 0;
    };
    for (std::int32_t y = top; y <= bottom + kCell - 1; y += kCell) {
      for (std::int32_t x = left; x <= right + kCell - 1; x += kCell) {
        for (const std::size_t other : cells_[cell(std::min(x, right), std::min(y, bottom))]) {
          const bool is_own = other == i || other == node.previous || other == node.next;
          if (!is_own && nodes_[other].is_there && is_inside(nodes_[other].corner)) return false;
        }
      }
    }
    return true;
  }

  void leave_out(std::size_t i) {
    Node& node = nodes_[i];
    node.is_there = false;
    --sizes_[node.ring];
    nodes_[node.previous].next = node.next;
    nodes_[node.next].previous = node.previous;
    for (const std::size_t neighbour : {node.previous, node.next}) {
      ++nodes_[neighbour].version;
      offer(neighbour);
    }
  }

  double most_;  // squared
  std::vector<Node> nodes_;
  std::vector<std::size_t> starts_, sizes_;  // of rings: the first node, and how many are there
  std::vector<std::vector<std::size_t>> cells_;
  Corner origin_;
  std::int32_t columns_ = 0;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void simplify_(std::vector<Outline>& outlines, double tolerance) {
  Simplifier simplifier(outlines, tolerance);
  simplifier.run();
  simplifier.write(outlines);
}

}  // namespace sam_rlx
