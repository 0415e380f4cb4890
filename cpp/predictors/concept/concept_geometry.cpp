#include "predictors/concept/concept_geometry.h"

#include <array>

namespace sam_rlx {

sam3::GeometricPrompt geometric_prompt(Context& ctx, const ConceptGeometry& geometry,
                                       Size orig_hw) {
  const std::array<double, 2> size{static_cast<double>(orig_hw.width),
                                   static_cast<double>(orig_hw.height)};
  sam3::GeometricPrompt prompt;
  if (geometry.num_points > 0) {
    const View points = ctx.workspace.floats({geometry.num_points, 2});
    for (std::int64_t i = 0; i < points.numel(); ++i) {
      const double scale = geometry.fractions ? 1.0 : size[static_cast<std::size_t>(i % 2)];
      points.data[i] = static_cast<float>(geometry.points[i] / scale);
    }
    prompt.points = points;
    prompt.point_labels = geometry.point_labels;
  }
  if (geometry.num_boxes > 0) {
    const View boxes = ctx.workspace.floats({geometry.num_boxes, 4});
    for (std::int64_t i = 0; i < geometry.num_boxes; ++i) {
      const double* const in = geometry.boxes + 4 * i;
      float* const out = boxes.data + 4 * i;
      for (std::size_t axis = 0; axis < 2; ++axis) {
        const double low = in[axis], high = in[axis + 2];
        out[axis] = static_cast<float>(geometry.fractions ? low : (low + high) / 2 / size[axis]);
        out[axis + 2] = static_cast<float>(geometry.fractions ? high : (high - low) / size[axis]);
      }
    }
    prompt.boxes = boxes;
    prompt.box_labels = geometry.box_labels;
    prompt.box_positions = geometry.box_positions;
  }
  return prompt;
}

}  // namespace sam_rlx
