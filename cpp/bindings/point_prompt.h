#pragma once

#include "bindings/numpy.h"
#include "predictors/video/tracked_objects.h"

namespace sam_rlx {

struct PointArguments {
  bool clear_old_points, normalize_coords;
  bool any_label;  // as upstream; else -1 to 3
  bool of_text;    // see VideoSession::add_points
};

// A view of coords (N, 2) and labels (N,), without frame and object. Raises InvalidArgument when
// they are not valid.
PointPrompt point_prompt(const PointArguments& arguments, const Array<double>& coords,
                         const Array<std::int32_t>& labels);

}  // namespace sam_rlx
