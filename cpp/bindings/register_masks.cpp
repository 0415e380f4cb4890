#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "bindings/register.h"
#include "core/context.h"
#include "core/cores.h"
#include "kernels/kernel_table.h"
#include "masks/brush.h"
#include "masks/components.h"
#include "masks/nms.h"
#include "masks/outline.h"
#include "masks/polygon.h"
#include "masks/polygon_fill.h"
#include "masks/simplify.h"
#include "masks/small_regions.h"
#include "ops/resize_pillow.h"

// What Python gets (see _core.pyi):
//   rle_encode(mask) -> counts              rle_decode(counts, (h, w)) -> mask
//   rle_to_string(counts) -> bytes          rle_from_string(bytes) -> counts
//   brush_code(mask) -> bytes of Label Studio
//   mask_to_polygons(mask, holes), rle_to_polygons(counts, (h, w), holes) -> [[x0, y0, ...], ...]
//   rle_to_outlines(counts, (h, w), tolerance) -> [[outer ring (N, 2), hole (N, 2), ...], ...]
//   polygons_to_mask([[x0, y0, ...], ...], (h, w)) -> mask, what any of them covers
//   label_components(mask, corners) -> (labels int32 (H, W), 0 for no part, areas int64 (N,))
//   remove_small_regions(mask, area, "holes" | "islands") -> CleanedMask
//   remove_small_mask_regions(low_res (K, h, w), hole area, sprinkle area, threshold) -> logits
//   mask_to_box(mask) -> PixelBox, inclusive
//   stability_score(logits (H, W), mask_threshold, threshold_offset) -> float
//   box_nms(boxes (N, 4), scores (N,), threshold) -> indices, best first
//   is_box_near_crop_edge(boxes (N, 4), crop_box, orig_box, atol) -> bool (N,)
//   generate_crop_boxes((h, w), n_layers, overlap_ratio) -> [CropBox, ...]
//   build_point_grid(n) -> (n * n, 2)
//   resize_longest_side(image, side) -> image
//   postprocess_masks(low_res (K, h, w), orig_hw, input_hw, side, threshold, num_threads)
//     -> logits, or bool masks with a threshold; side 0: one step, input_hw unused; 0 threads: one
//     for each core
namespace sam_rlx {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;
using Sides = std::array<std::int64_t, 4>;

py::bytes rle_to_string(const Array<std::uint32_t>& counts) {
  return compress_counts({counts.data(), counts.data() + counts.size()});
}

py::array_t<std::uint32_t> rle_from_string(const py::bytes& text) {
  return counts_array({0, 0, decompress_counts(static_cast<std::string>(text))});
}

py::bytes brush_code(const MaskArray& mask) {
  const std::uint8_t* const pixels = mask_bytes(mask);
  std::string code;
  {
    const GilRelease release;
    code = encode_brush(pixels, mask.shape(0), mask.shape(1));
  }
  return py::bytes(code);
}

std::vector<std::vector<double>> polygons(const Rle& mask, bool holes) {
  const GilRelease release;
  std::vector<std::vector<double>> lists;
  for (const Polygon& polygon : mask_to_polygons(mask, holes)) {
    lists.emplace_back(polygon.begin(), polygon.end());
  }
  return lists;
}

using Rings = std::vector<py::array_t<std::int32_t>>;

std::vector<Rings> outlines(const Rle& mask, double tolerance) {
  std::vector<Outline> found;
  {
    const GilRelease release;
    found = mask_to_outlines(mask);
    if (tolerance > 0) simplify_(found, tolerance);
  }
  std::vector<Rings> arrays(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Ring& ring : found[i]) {
      auto corners = make_array<std::int32_t>({static_cast<std::int64_t>(ring.size()), 2});
      std::int32_t* out = corners.mutable_data();
      for (const Corner& corner : ring) {
        *out++ = corner.x;
        *out++ = corner.y;
      }
      arrays[i].push_back(std::move(corners));
    }
  }
  return arrays;
}

Rle encoded(const MaskArray& mask) {
  const std::uint8_t* const pixels = mask_bytes(mask);
  const GilRelease release;
  return encode_rle(pixels, mask.shape(0), mask.shape(1), mask.shape(1));
}

py::array_t<bool> polygons_to_mask(const std::vector<std::vector<double>>& polygons, Pair size) {
  const auto [height, width] = size;
  if (!is_image_size({height, width})) {
    fail("size", "a height and width of an image",
         std::to_string(height) + " x " + std::to_string(width));
  }
  auto mask = make_array<bool>({height, width});
  auto* const pixels = reinterpret_cast<std::uint8_t*>(mask.mutable_data());
  const GilRelease release;
  std::fill_n(pixels, height * width, std::uint8_t{0});
  for (const std::vector<double>& corners : polygons) fill_polygon(corners, height, width, pixels);
  return mask;
}

using Labelled = std::pair<py::array_t<std::int32_t>, py::array_t<std::int64_t>>;

Labelled label_components(const MaskArray& mask, bool corners) {
  const Rle rle = encoded(mask);
  auto labels = make_array<std::int32_t>({rle.height, rle.width});
  std::int32_t* const out = labels.mutable_data();
  Components found;
  {
    const GilRelease release;
    std::fill_n(out, rle.height * rle.width, 0);
    found = find_components(rle, true, corners ? Connectivity::kEight : Connectivity::kFour);
    for (const Segment& segment : found.segments) {
      for (std::int64_t y = segment.y0; y <= segment.y1; ++y) {
        out[y * rle.width + segment.x] = segment.label + 1;
      }
    }
  }
  const auto count = static_cast<py::ssize_t>(found.areas.size());
  return {std::move(labels), py::array_t<std::int64_t>(count, found.areas.data())};
}

struct CleanedMask {
  py::array_t<bool> mask;
  bool is_changed = false;
};

CleanedMask remove_regions(const MaskArray& mask, double area, const std::string& mode) {
  if (mode != "holes" && mode != "islands") fail("mode", "\"holes\" or \"islands\"", mode);
  Rle rle = encoded(mask);
  const bool is_changed =
      remove_small_regions(rle, area, mode == "holes" ? Regions::kHoles : Regions::kIslands);
  return {mask_array(rle), is_changed};
}

py::array_t<float> remove_small_mask_regions(const Array<float>& low_res, double max_hole_area,
                                             double max_sprinkle_area, float mask_threshold) {
  const ConstView source = view_of(low_res, "low_res");
  if (source.shape.rank() != 3) fail("low_res", "shape (K, h, w)", source.shape.str());
  py::array_t<float> result = make_array<float>(source.shape);
  const View logits = view_of(result);
  std::copy_n(source.data, source.numel(), logits.data);
  remove_small_regions_(logits, {max_hole_area, max_sprinkle_area, mask_threshold});
  return result;
}

float stability(const Array<float>& logits, double mask_threshold, double threshold_offset) {
  return stability_score(logits.data(), logits.size(), mask_threshold, threshold_offset);
}

void check_boxes(const Array<float>& boxes) {
  if (boxes.ndim() != 2 || boxes.shape(1) != 4) {
    fail("boxes", "shape (N, 4)", shape_of(boxes, "boxes").str());
  }
}

py::array_t<std::int64_t> box_nms(const Array<float>& boxes, const Array<float>& scores,
                                  double threshold) {
  check_boxes(boxes);
  if (scores.ndim() != 1 || scores.shape(0) != boxes.shape(0)) {
    fail("scores", "shape (" + std::to_string(boxes.shape(0)) + ")",
         shape_of(scores, "scores").str());
  }
  const std::vector<std::int64_t> kept =
      nms(boxes.data(), scores.data(), boxes.shape(0), threshold);
  return py::array_t<std::int64_t>(static_cast<py::ssize_t>(kept.size()), kept.data());
}

py::array_t<bool> near_crop_edge(const Array<float>& boxes, const Sides& crop_box,
                                 const Sides& orig_box, float atol) {
  check_boxes(boxes);
  const auto sides = [](const Sides& box) {
    BoxSides result;
    std::transform(box.begin(), box.end(), result.begin(),
                   [](std::int64_t side) { return static_cast<float>(side); });
    return result;
  };
  const BoxSides crop = sides(crop_box), image = sides(orig_box);
  auto out = make_array<bool>({boxes.shape(0)});
  for (py::ssize_t i = 0; i < boxes.shape(0); ++i) {
    BoxSides box;
    const float* const source = boxes.data() + 4 * i;
    std::copy_n(source, 4, box.begin());
    out.mutable_data()[i] = is_crop_box_near_edge(box, crop, image, atol);
  }
  return out;
}

py::array_t<double> point_grid(std::int64_t n_per_side) {
  const std::vector<double> points = build_point_grid(n_per_side);
  auto grid = make_array<double>({n_per_side * n_per_side, 2});
  std::copy(points.begin(), points.end(), grid.mutable_data());
  return grid;
}

py::array_t<std::uint8_t> resize_longest_side(const py::array& image, std::int64_t side) {
  const ImageArray source(image);
  if (side < 1) fail("side", "at least 1", std::to_string(side));
  ImageTransform transform;
  transform.side = side;
  const ImageView view = source.view();
  const Size size = transform.resized_hw({view.height, view.width});
  auto out = make_array<std::uint8_t>({size.height, size.width, 3});
  std::uint8_t* const data = out.mutable_data();
  const GilRelease release;
  Workspace workspace;
  Context ctx{.kernels = generic_kernels(), .workspace = workspace};
  resize_pillow(ctx, view, size.height, size.width, [&](std::int64_t y, const std::uint8_t* row) {
    std::copy_n(row, 3 * size.width, data + 3 * size.width * y);
  });
  return out;
}

py::array postprocess(const Array<float>& low_res, Pair orig_hw, Pair input_hw, std::int64_t side,
                      std::optional<float> threshold, int num_threads) {
  const ConstView source = view_of(low_res, "low_res");
  if (source.shape.rank() != 3) fail("low_res", "shape (K, h, w)", source.shape.str());
  if (orig_hw.first < 1 || orig_hw.second < 1) {
    fail("orig_hw", "sides of at least 1",
         std::to_string(orig_hw.first) + " x " + std::to_string(orig_hw.second));
  }
  const MaskGeometry geometry{source.shape[1], source.shape[2], side,          input_hw.first,
                              input_hw.second, orig_hw.first,   orig_hw.second};
  const Shape shape{source.shape[0], orig_hw.first, orig_hw.second};
  const auto run = [&](const auto& step) {
    const GilRelease release;
    Workspace workspace;
    Context ctx{.kernels = generic_kernels(),
                .workspace = workspace,
                .num_threads = num_threads > 0 ? num_threads : available_cores()};
    step(ctx);
  };
  if (!threshold) {
    auto logits = make_array<float>(shape);
    const View out = view_of(logits);
    run([&](Context& ctx) { postprocess_masks(ctx, source, geometry, out); });
    return logits;
  }
  auto masks = make_array<bool>(shape);
  auto* const out = reinterpret_cast<std::uint8_t*>(masks.mutable_data());
  run([&](Context& ctx) { binarize_masks(ctx, source, geometry, *threshold, out); });
  return masks;
}

}  // namespace

void register_masks_api(py::module_& m) {
  m.def(
      "rle_encode", [](const MaskArray& mask) { return counts_array(encoded(mask)); },
      py::arg("mask"));
  m.def(
      "rle_decode",
      [](const Array<std::uint32_t>& counts, Pair size) {
        return mask_array(rle_from(counts, size));
      },
      py::arg("counts"), py::arg("size"));
  m.def("rle_to_string", rle_to_string, py::arg("counts"));
  m.def("rle_from_string", rle_from_string, py::arg("text"));
  m.def("brush_code", brush_code, py::arg("mask"));
  m.def(
      "mask_to_polygons",
      [](const MaskArray& mask, bool holes) { return polygons(encoded(mask), holes); },
      py::arg("mask"), py::arg("holes") = false);
  m.def(
      "rle_to_polygons",
      [](const Array<std::uint32_t>& counts, Pair size, bool holes) {
        return polygons(rle_from(counts, size), holes);
      },
      py::arg("counts"), py::arg("size"), py::arg("holes") = false);
  m.def(
      "rle_to_outlines",
      [](const Array<std::uint32_t>& counts, Pair size, double tolerance) {
        return outlines(rle_from(counts, size), tolerance);
      },
      py::arg("counts"), py::arg("size"), py::arg("tolerance") = 0.0);
  m.def("polygons_to_mask", polygons_to_mask, py::arg("polygons"), py::arg("size"));
  m.def("label_components", label_components, py::arg("mask"), py::arg("corners") = false);
  py::classh<CleanedMask>(m, "CleanedMask")
      .def_readonly("mask", &CleanedMask::mask)
      .def_readonly("is_changed", &CleanedMask::is_changed);
  m.def("remove_small_regions", remove_regions, py::arg("mask"), py::arg("area"), py::arg("mode"));
  py::classh<PixelBox>(m, "PixelBox")
      .def_readonly("x0", &PixelBox::x0)
      .def_readonly("y0", &PixelBox::y0)
      .def_readonly("x1", &PixelBox::x1)
      .def_readonly("y1", &PixelBox::y1);
  m.def(
      "mask_to_box",
      [](const MaskArray& mask) {
        const std::uint8_t* const pixels = mask_bytes(mask);
        const GilRelease release;
        return mask_box(pixels, mask.shape(0), mask.shape(1));
      },
      py::arg("mask"));
  m.def("stability_score", stability, py::arg("logits"), py::arg("mask_threshold"),
        py::arg("threshold_offset"));
  m.def("box_nms", box_nms, py::arg("boxes"), py::arg("scores"), py::arg("threshold"));
  m.def("is_box_near_crop_edge", near_crop_edge, py::arg("boxes"), py::arg("crop_box"),
        py::arg("orig_box"), py::arg("atol") = kNearEdge);
  py::classh<CropBox>(m, "CropBox")
      .def_readonly("x0", &CropBox::x0)
      .def_readonly("y0", &CropBox::y0)
      .def_readonly("x1", &CropBox::x1)
      .def_readonly("y1", &CropBox::y1)
      .def_readonly("layer", &CropBox::layer);
  m.def(
      "generate_crop_boxes",
      [](Pair orig_hw, std::int64_t n_layers, double overlap_ratio) {
        return generate_crop_boxes({orig_hw.first, orig_hw.second}, n_layers, overlap_ratio);
      },
      py::arg("orig_hw"), py::arg("n_layers"), py::arg("overlap_ratio"));
  m.def("build_point_grid", point_grid, py::arg("n_per_side"));
  m.def("resize_longest_side", resize_longest_side, py::arg("image"), py::arg("side"));
  m.def("remove_small_mask_regions", remove_small_mask_regions, py::arg("low_res"),
        py::arg("max_hole_area"), py::arg("max_sprinkle_area"), py::arg("mask_threshold"));
  m.def("postprocess_masks", postprocess, py::arg("low_res"), py::arg("orig_hw"),
        py::arg("input_hw") = Pair{0, 0}, py::arg("side") = 0, py::arg("threshold") = py::none(),
        py::arg("num_threads") = 1);
}

}  // namespace sam_rlx
