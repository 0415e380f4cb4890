#include "bindings/point_prompt.h"

#include "predictors/prompts.h"

namespace sam_rlx {

PointPrompt point_prompt(const PointArguments& arguments, const Array<double>& coords,
                         const Array<std::int32_t>& labels) {
  if (coords.ndim() != 2 || coords.shape(1) != 2) {
    fail("point_coords", "shape (N, 2)", shape_of(coords, "point_coords").str());
  }
  if (labels.ndim() != 1 || labels.shape(0) != coords.shape(0)) {
    fail("point_labels", "shape " + Shape{coords.shape(0)}.str(),
         shape_of(labels, "point_labels").str());
  }
  check_prompt_numbers("point_coords", {coords.data(), static_cast<std::size_t>(coords.size())});
  for (py::ssize_t i = 0; i < labels.size() && !arguments.any_label; ++i) {
    if (labels.data()[i] < -1 || labels.data()[i] > 3) {
      fail("point_labels", "-1 to 3", std::to_string(labels.data()[i]));
    }
  }
  return {.coords = {coords.data(), static_cast<std::size_t>(coords.size())},
          .labels = {labels.data(), static_cast<std::size_t>(labels.size())},
          .clear_old_points = arguments.clear_old_points,
          .normalize_coords = arguments.normalize_coords};
}

}  // namespace sam_rlx
