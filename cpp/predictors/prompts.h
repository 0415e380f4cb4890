#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "predictors/image/image_transform.h"

namespace sam_rlx {

// Which values of prompts are right: one rule for each kind, for all predictors and front ends.
// `where` is the argument that errors name. All raise InvalidArgument.

// The image that prompts are for, and what errors call it.
struct PromptArea {
  Size hw;
  std::string name = "an image";
};

// Neither NaN nor infinity: all that upstream asks for.
void check_prompt_numbers(const std::string& where, std::span<const double> values);

// Labels of clicks are 1, 0 or -1 (ignored), those of examples 1 or 0.
enum class LabelKind { kClick, kExample };
void check_prompt_labels(const std::string& where, std::span<const double> labels, LabelKind kind);

// Points (N, 2) are at most 1e9 pixels from the corner of the image: farther away, float32
// overflows in the encoding of positions. Clicks may lie outside of their image, as upstream. With
// an area, points lie on it, its edges included: 0 <= x <= width, 0 <= y <= height; but for those
// whose label is -1, which are ignored.
void check_prompt_points(const std::string& where, std::span<const double> coords,
                         std::span<const std::int32_t> labels, const PromptArea* area = nullptr);

// Boxes (N, 4) are as near as points, and have x0 <= x1 and y0 <= y1. With an area they have a
// point of it, its edges included. They may reach out of it, as those of detectors do.
void check_prompt_boxes(const std::string& where, std::span<const double> boxes,
                        const PromptArea* area = nullptr);

// Boxes as examples of what to look for: checked, and cut off at the edges of their image. What is
// left has an area. Boxes that lie in the first pixel of a larger image are fractions of its sides,
// and refused.
std::vector<double> clip_prompt_boxes(const std::string& where, std::span<const double> boxes,
                                      const PromptArea& area);

// Logits of a mask are finite.
void check_mask_input(ConstView mask_input);

}  // namespace sam_rlx
