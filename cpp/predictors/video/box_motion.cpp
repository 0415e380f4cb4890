#include "predictors/video/box_motion.h"

#include <algorithm>

namespace sam_rlx {
namespace {

constexpr std::size_t kAspect = 2;

// Standard deviations: shares of the height, and those of the aspect as they are.
struct BoxNoise {
  double of_height = 0.0, of_aspect = 0.0;

  double variance(std::size_t axis, double height) const {
    const double deviation = axis == kAspect ? of_aspect : of_height * height;
    return deviation * deviation;
  }
};
constexpr BoxNoise kPositionNoise{1.0 / 20.0, 1e-2}, kVelocityNoise{1.0 / 160.0, 1e-5};
constexpr BoxNoise kSeenNoise{1.0 / 20.0, 1e-1};
constexpr BoxNoise kFirstPosition{2.0 / 20.0, 1e-2}, kFirstVelocity{10.0 / 160.0, 1e-5};

}  // namespace

BoxShape box_shape(const PixelBox& box) {
  const auto x0 = static_cast<double>(box.x0), y0 = static_cast<double>(box.y0);
  const auto x1 = static_cast<double>(box.x1), y1 = static_cast<double>(box.y1);
  const double height = y1 > y0 ? y1 - y0 : 1.0;
  return {(x0 + x1) / 2.0, (y0 + y1) / 2.0, (x1 - x0) / height, height};
}

double predicted_iou(const BoxShape& predicted, const PixelBox& box) {
  if (box.x0 == 0 && box.y0 == 0 && box.x1 == 0 && box.y1 == 0) return 0.0;
  const double half_width = predicted[kAspect] * predicted[3] / 2.0;
  const double half_height = predicted[3] / 2.0;
  const double left = predicted[0] - half_width, right = predicted[0] + half_width;
  const double top = predicted[1] - half_height, bottom = predicted[1] + half_height;
  const auto x0 = static_cast<double>(box.x0), y0 = static_cast<double>(box.y0);
  const auto x1 = static_cast<double>(box.x1), y1 = static_cast<double>(box.y1);
  const double common = std::max(0.0, std::min(right, x1) - std::max(left, x0)) *
                        std::max(0.0, std::min(bottom, y1) - std::max(top, y0));
  const double all = (right - left) * (bottom - top) + (x1 - x0) * (y1 - y0) - common;
  return all != 0.0 ? common / all : 0.0;
}

BoxMotion start_motion(const BoxShape& seen) {
  BoxMotion motion;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    motion.axes[i] = {.position = seen[i],
                      .position_variance = kFirstPosition.variance(i, seen[3]),
                      .velocity_variance = kFirstVelocity.variance(i, seen[3])};
  }
  return motion;
}

BoxShape BoxMotion::shape() const {
  return {axes[0].position, axes[1].position, axes[2].position, axes[3].position};
}

void BoxMotion::predict_() {
  const double before = height();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = axes[i];
    axis.position += axis.velocity;
    axis.position_variance +=
        2.0 * axis.covariance + axis.velocity_variance + kPositionNoise.variance(i, before);
    axis.covariance += axis.velocity_variance;
    axis.velocity_variance += kVelocityNoise.variance(i, before);
  }
}

void BoxMotion::update_(const BoxShape& seen) {
  const double predicted = height();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = axes[i];
    const double variance = axis.position_variance + kSeenNoise.variance(i, predicted);
    const double gain = axis.position_variance / variance, drift = axis.covariance / variance;
    const double surprise = seen[i] - axis.position;
    axis.position += gain * surprise;
    axis.velocity += drift * surprise;
    axis.position_variance -= gain * variance * gain;
    axis.covariance -= gain * variance * drift;
    axis.velocity_variance -= drift * variance * drift;
  }
}

}  // namespace sam_rlx
