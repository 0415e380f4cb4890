#pragma once

#include "bindings/numpy.h"
#include "predictors/video/tracked_objects.h"

namespace sam_rlx {

struct PointArguments {
  std::int64_t frame, handle;
  bool clear_old_points, normalize_coords;
  bool any_label = false;  // as upstream; else -1 to 3
};

// A view of coords (N, 2) and labels (N,). Raises InvalidArgument when they are not valid.
PointPrompt point_prompt(const PointArguments& arguments, const Array<double>& coords,
                                       const Array<std::int32_t>& labels);

}  // namespace sam_rlx
