#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/context.h"
#include "core/parallel.h"

namespace sam_rlx {

// A map (height, width) cut into groups of windows that lie side by side, for layers that do not
// look out of a window: one thread takes a group through all of them, and what the group's
// positions need in between stays in a second-level cache.
class WindowGroups {
 public:
  WindowGroups(std::int64_t height, std::int64_t width, std::int64_t window)
      : height_(height),
        width_(width),
        group_height_(window),
        group_width_(window * std::max<std::int64_t>(kPositions / (window * window), 1)),
        cols_((width + group_width_ - 1) / group_width_) {}

  std::int64_t count() const { return (height_ + group_height_ - 1) / group_height_ * cols_; }
  // Whether there are so many that no thread waits long for the last one.
  bool enough_for(int threads) const { return count() >= std::int64_t{8} * std::max(threads, 1); }

  struct Part {
    std::int64_t y = 0, x = 0, rows = 0, cols = 0;
    std::int64_t windows = 1;  // side by side, where all of them are whole
  };
  Part part(std::int64_t group) const {
    const std::int64_t y = group / cols_ * group_height_, x = group % cols_ * group_width_;
    Part part{y, x, std::min(group_height_, height_ - y), std::min(group_width_, width_ - x)};
    const std::int64_t window = group_height_;
    if (part.rows == window && part.cols % window == 0) part.windows = part.cols / window;
    return part;
  }

  // Groups are taken as 0, stride, 2 stride ... modulo their number, by the thread that is free.
  // This stride is the one with which the last of the threads ends first: two threads have 2052 and
  // 2044 positions of 25 windows of 14 on a map of 64, but 2080 and 2016 row by row. busy:
  // (threads,).
  std::int64_t stride(int threads, std::int64_t* busy) const {
    std::int64_t best = 1, least = height_ * width_;
    // Among many groups, one more or less makes no difference.
    for (std::int64_t step = 1; count() < kFewGroups && step < count(); ++step) {
      if (std::gcd(step, count()) > 1) continue;
      std::fill_n(busy, threads, 0);
      for (std::int64_t i = 0; i < count(); ++i) {
        const Part taken = part(i * step % count());
        *std::min_element(busy, busy + threads) += taken.rows * taken.cols;
      }
      const std::int64_t last = *std::max_element(busy, busy + threads);
      if (last < least) {
        least = last;
        best = step;
      }
    }
    return best;
  }

 private:
  static constexpr std::int64_t kPositions = 192;  // docs/develop/optimizations.md: window-groups
  static constexpr std::int64_t kFewGroups = 64;   // docs/develop/optimizations.md: group-order

  std::int64_t height_, width_, group_height_, group_width_, cols_;
};

// Calls body(context of a thread, group of x (1, h, w, C), its result (1, h / s, w / s, C2)) for
// each group of the map x (H, W, C), and puts the results together in out (H / s, W / s, C2), which
// may be x. The two views of a call are the same where their shapes are. Whole windows stand one
// above the other in them, so that the positions of each are in order.
template <class Body>
void for_window_groups(Context& ctx, const WindowGroups& groups, ConstView x, View out,
                       const Body& body) {
  const std::int64_t step = x.shape[0] / out.shape[0];
  const std::int64_t channels = x.shape[2], out_channels = out.shape[2];
  const int threads = std::max(ctx.num_threads, 1);
  ctx.workspace.reserve_threads(threads);
  const Workspace::Scope outer(ctx.workspace);
  const std::int64_t stride = groups.stride(threads, ctx.workspace.array<std::int64_t>(threads));
  parallel_for(threads, groups.count(), 1, [&](std::int64_t i, std::int64_t, int thread) {
    Context own{.kernels = ctx.kernels, .workspace = ctx.workspace.of_thread(thread)};
    const Workspace::Scope scratch(own.workspace);
    const auto [top, left, rows, cols, windows] = groups.part(i * stride % groups.count());
    const std::int64_t width = cols / windows;
    const View part = own.workspace.floats({1, windows * rows, width, channels});
    View result = part;
    if (step > 1 || out_channels != channels) {
      result = own.workspace.floats({1, windows * rows / step, width / step, out_channels});
    }
    for (std::int64_t y = 0; y < rows; ++y) {
      const float* from = x.data + ((top + y) * x.shape[1] + left) * channels;
      for (std::int64_t w = 0; w < windows; ++w, from += width * channels) {
        std::copy_n(from, width * channels, part.data + (w * rows + y) * width * channels);
      }
    }
    body(own, part, result);
    const std::int64_t height = rows / step, row = width / step * out_channels;
    for (std::int64_t y = 0; y < height; ++y) {
      float* to = out.data + ((top / step + y) * out.shape[1] + left / step) * out_channels;
      for (std::int64_t w = 0; w < windows; ++w, to += row) {
        std::copy_n(result.data + (w * height + y) * row, row, to);
      }
    }
  });
}

}  // namespace sam_rlx
