#pragma once

#include <algorithm>
#include <cmath>

namespace sam_rlx {

// A filter of a resize with antialias: its weight at a distance, which is 0 from `support` on. Both
// are stretched where an image shrinks.
struct ResizeFilter {
  double support;
  double (*weight)(double distance);
};

inline constexpr ResizeFilter kTriangleFilter{
    1.0, [](double distance) { return std::max(1.0 - std::abs(distance), 0.0); }};

// Keys' cubic with a = -0.5.
inline constexpr ResizeFilter kCubicFilter{2.0, [](double distance) {
                                             constexpr double kA = -0.5;
                                             const double x = std::abs(distance);
                                             if (x < 1.0) {
                                               return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
                                             }
                                             if (x >= 2.0) return 0.0;
                                             return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
                                           }};

}  // namespace sam_rlx
