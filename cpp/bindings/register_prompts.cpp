#include <pybind11/stl.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "predictors/prompts.h"

// The rules of prompts.h for front ends that know an image before a predictor does (see _core.pyi):
//   check_points(where, coords (N, 2), labels (N,), (h, w) that they lie on, name of the image)
//   check_boxes(where, boxes (N, 4), (h, w) that they have a part of, name)
//   clip_boxes(where, boxes (N, 4), (h, w), name) -> boxes
//   check_finite(where, values)
//   check_labels(where, labels, "click" | "example")
namespace sam_rlx {
namespace {

using Numbers = Array<double>;
using Pair = std::pair<std::int64_t, std::int64_t>;

std::span<const double> span_of(const Numbers& values) {
  return {values.data(), static_cast<std::size_t>(values.size())};
}

std::span<const double> rows_of(const std::string& where, const Numbers& rows, py::ssize_t width) {
  if (rows.ndim() != 2 || rows.shape(1) != width) {
    fail(where, "shape (N, " + std::to_string(width) + ")", shape_of(rows, "prompts").str());
  }
  return span_of(rows);
}

std::optional<PromptArea> area_of(std::optional<Pair> hw, const std::string& image) {
  if (!hw) return std::nullopt;
  return PromptArea{{hw->first, hw->second}, image};
}

LabelKind kind_named(const std::string& name) {
  if (name != "click" && name != "example") fail("kind", "\"click\" or \"example\"", name);
  return name == "click" ? LabelKind::kClick : LabelKind::kExample;
}

}  // namespace

void register_prompt_checks(py::module_& m) {
  m.def(
      "check_finite",
      [](const std::string& where, const Numbers& values) {
        check_prompt_numbers(where, span_of(values));
      },
      py::arg("where"), py::arg("values"));
  m.def(
      "check_labels",
      [](const std::string& where, const Numbers& labels, const std::string& kind) {
        check_prompt_labels(where, span_of(labels), kind_named(kind));
      },
      py::arg("where"), py::arg("labels"), py::arg("kind"));
  m.def(
      "check_points",
      [](const std::string& where, const Numbers& coords, const Array<std::int32_t>& labels,
         std::optional<Pair> hw, const std::string& image) {
        const std::optional<PromptArea> area = area_of(hw, image);
        check_prompt_points(where, rows_of(where, coords, 2),
                            {labels.data(), static_cast<std::size_t>(labels.size())},
                            area ? &*area : nullptr);
      },
      py::arg("where"), py::arg("coords"), py::arg("labels"), py::arg("hw") = py::none(),
      py::arg("image") = "an image");
  m.def(
      "check_boxes",
      [](const std::string& where, const Numbers& boxes, std::optional<Pair> hw,
         const std::string& image) {
        const std::optional<PromptArea> area = area_of(hw, image);
        check_prompt_boxes(where, rows_of(where, boxes, 4), area ? &*area : nullptr);
      },
      py::arg("where"), py::arg("boxes"), py::arg("hw") = py::none(),
      py::arg("image") = "an image");
  m.def(
      "clip_boxes",
      [](const std::string& where, const Numbers& boxes, Pair hw, const std::string& image) {
        const std::vector<double> clipped =
            clip_prompt_boxes(where, rows_of(where, boxes, 4), {{hw.first, hw.second}, image});
        auto out = make_array<double>({boxes.shape(0), 4});
        std::copy(clipped.begin(), clipped.end(), out.mutable_data());
        return out;
      },
      py::arg("where"), py::arg("boxes"), py::arg("hw"), py::arg("image"));
}

}  // namespace sam_rlx
