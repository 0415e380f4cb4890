#pragma once

#include <cstdint>

#include "core/context.h"
#include "models/sam3/geometry_encoder.h"
#include "predictors/image/image_transform.h"

namespace sam_rlx {

// Points and boxes of a prompt. Labels are 1 for what is meant and 0 for what is not.
struct ConceptGeometry {
  std::int64_t num_points = 0, num_boxes = 0;
  const double* points = nullptr;              // (P, 2): x, y
  const std::int32_t* point_labels = nullptr;  // (P,)
  const double* boxes = nullptr;               // (B, 4)
  const std::int32_t* box_labels = nullptr;    // (B,)
  // Coordinates are fractions of the sides, and boxes cx, cy, w, h as upstream's; else they are
  // pixels of the image, and boxes xyxy.
  bool fractions = false;
  bool box_positions = true;  // see GeometricPrompt
};

// As fractions of the sides, in float32 from here on, as upstream. Views live in the scope of the
// caller.
sam3::GeometricPrompt geometric_prompt(Context& ctx, const ConceptGeometry& geometry, Size orig_hw);

}  // namespace sam_rlx
