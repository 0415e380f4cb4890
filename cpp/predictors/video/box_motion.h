#pragma once

#include <array>
#include <cstddef>

#include "masks/rle.h"

namespace sam_rlx {

// A box as its centre (x, y), width over height, and height.
using BoxShape = std::array<double, 4>;
// Of inclusive pixels; a box without a height has height 1.
BoxShape box_shape(const PixelBox& box);
// IoU of a predicted box with one of pixels, without the last row and column of pixels. 0 for the
// box of an empty mask, which is all 0.
double predicted_iou(const BoxShape& predicted, const PixelBox& box);

// How a box moves: a Kalman filter of constant velocity. Its four numbers do not depend on each
// other, so that each has a filter of its own. The noise of all but the aspect grows with the
// height. Upstream: the filter of SORT, as SAMURAI has it.
struct BoxMotion {
  struct Axis {
    double position = 0.0, velocity = 0.0;
    double position_variance = 0.0, covariance = 0.0, velocity_variance = 0.0;
  };
  std::array<Axis, 4> axes = {};

  BoxShape shape() const;
  double height() const { return axes[3].position; }
  // To the next frame.
  void predict_();
  // With the box that was seen there.
  void update_(const BoxShape& seen);
};
// A motion that begins with a box at rest.
BoxMotion start_motion(const BoxShape& seen);

}  // namespace sam_rlx
