#include "predictors/prompts.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "layers/fields.h"

namespace sam_rlx {
namespace {

constexpr double kFarthest = 1e9;

std::string listed(std::span<const double> values) {
  std::string text = "[";
  for (const double value : values) text += (text.size() > 1 ? ", " : "") + number_text(value);
  return text + "]";
}

std::string sides(const PromptArea& area) {
  return area.name + " of " + std::to_string(area.hw.width) + " x " +
         std::to_string(area.hw.height);
}

void check_numbers(const std::string& where, std::span<const double> values) {
  check_prompt_numbers(where, values);
  for (const double value : values) {
    if (std::abs(value) > kFarthest) fail(where, "pixels from -1e+09 to 1e+09", number_text(value));
  }
}

}  // namespace

void check_prompt_numbers(const std::string& where, std::span<const double> values) {
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(values.begin(), values.end(), is_finite)) {
    fail(where, "finite pixels", "NaN or infinity");
  }
}

void check_prompt_labels(const std::string& where, std::span<const double> labels, LabelKind kind) {
  const bool is_click = kind == LabelKind::kClick;
  for (const double& label : labels) {
    if (label == 1.0 || label == 0.0 || (is_click && label == -1.0)) continue;
    fail(where,
         is_click ? "1 (foreground), 0 (background) or -1 (ignored)" : "1 (meant) or 0 (not meant)",
         listed({&label, 1}));
  }
}

void check_prompt_points(const std::string& where, std::span<const double> coords,
                         std::span<const std::int32_t> labels, const PromptArea* area) {
  check_numbers(where, coords);
  if (area == nullptr) return;
  for (std::size_t i = 0; 2 * i < coords.size(); ++i) {
    const std::span<const double> point = coords.subspan(2 * i, 2);
    const bool is_on = point[0] >= 0.0 && point[0] <= static_cast<double>(area->hw.width) &&
                       point[1] >= 0.0 && point[1] <= static_cast<double>(area->hw.height);
    const bool is_ignored = i < labels.size() && labels[i] == -1;
    if (!is_on && !is_ignored) fail(where, "pixels of " + sides(*area), listed(point));
  }
}

void check_prompt_boxes(const std::string& where, std::span<const double> boxes,
                        const PromptArea* area) {
  check_numbers(where, boxes);
  for (std::size_t i = 0; i < boxes.size(); i += 4) {
    const std::span<const double> box = boxes.subspan(i, 4);
    if (box[2] < box[0] || box[3] < box[1]) {
      fail(where, "(x0, y0, x1, y1) with x0 <= x1 and y0 <= y1", listed(box));
    }
    if (area == nullptr) continue;
    const bool is_out = box[2] < 0.0 || box[3] < 0.0 ||
                        box[0] > static_cast<double>(area->hw.width) ||
                        box[1] > static_cast<double>(area->hw.height);
    if (is_out) fail(where, "a part of " + sides(*area), listed(box));
  }
}

std::vector<double> clip_prompt_boxes(const std::string& where, std::span<const double> boxes,
                                      const PromptArea& area) {
  check_numbers(where, boxes);
  const auto [height, width] = area.hw;
  std::vector<double> clipped(boxes.begin(), boxes.end());
  for (std::size_t i = 0; i < boxes.size(); i += 4) {
    const std::span<const double> box = boxes.subspan(i, 4);
    const bool has_fractions =
        std::all_of(box.begin(), box.end(), [](double side) { return side >= 0.0 && side <= 1.0; });
    if (has_fractions && std::max(height, width) > 1) {
      fail(where, "pixels (x0, y0, x1, y1) of " + sides(area),
           listed(box) + "; multiply fractions with the sides");
    }
    for (std::size_t side = 0; side < 4; ++side) {
      const auto most = static_cast<double>(side % 2 == 0 ? width : height);
      clipped[i + side] = std::clamp(box[side], 0.0, most);
    }
    if (clipped[i] >= clipped[i + 2] || clipped[i + 1] >= clipped[i + 3]) {
      fail(where, "(x0, y0, x1, y1) that overlaps " + sides(area) + ", with x0 < x1 and y0 < y1",
           listed(box));
    }
  }
  return clipped;
}

void check_mask_input(ConstView mask_input) {
  const float* const end = mask_input.data + mask_input.numel();
  if (!std::all_of(mask_input.data, end, [](float logit) { return std::isfinite(logit); })) {
    fail("mask_input", "finite logits", "NaN or infinity");
  }
}

}  // namespace sam_rlx
