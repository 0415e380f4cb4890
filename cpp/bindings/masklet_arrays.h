#pragma once

#include "bindings/numpy.h"
#include "predictors/video/masklet_tracker.h"

namespace sam_rlx {

MaskletConfig masklet_config(const py::dict& options);

// Boxes (N, 4) with labels (N,). Raises InvalidArgument for other shapes.
MaskletExamples examples_of(const Array<double>& boxes, const Array<std::int32_t>& labels,
                            bool fractions);

struct DrawnMasklets {
  MaskletTracker::Seen seen;
  py::array_t<bool> masks;  // (K, H, W)
};
// What is seen on a frame; drawn without the GIL.
DrawnMasklets draw_masklets(const MaskletTracker& tracker, std::int64_t frame);

}  // namespace sam_rlx
