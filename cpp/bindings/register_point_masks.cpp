#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "bindings/mask_arrays.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "predictors/image/tensor_crop_predictor.h"

namespace sam_rlx {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

// Masks of points on a crop.
struct PointMasks {
  py::list counts;                  // RLE at the size of the image
  py::array_t<float> scores;        // predicted IoU
  py::array_t<std::int64_t> boxes;  // (N, 4): corners in the image, both inside
  // Of some batch of points no mask had IoU and stability enough.
  bool has_empty_batch = false;
};

struct PointCrop {
  CropBox box;
  Size orig_hw, input_hw;
};

struct PointRequest {
  PointCrop crop;
  PointMaskRules rules;
  double mask_threshold = 0.0;
};

// Returns whether some batch has none.
bool find(TensorPredictor& predictor, const std::vector<ConstView>& maps,
          const Array<double>& points, const PointRequest& request,
          std::vector<MaskRecord>& records) {
  const CropBox& box = request.crop.box;
  predictor.set_maps(maps);
  TensorCropPredictor crops(predictor, {.crop_hw = {box.y1 - box.y0, box.x1 - box.x0},
                                        .input_hw = request.crop.input_hw,
                                        .mask_threshold = request.mask_threshold});
  Workspace workspace;  // the predictor's own is in use while it decodes
  Context ctx{.kernels = predictor.model().kernels(),
              .workspace = workspace,
              .num_threads = predictor.num_threads(),
              .poll_interrupt = poll_python_signals};
  const std::int64_t count = points.shape(0), batch = request.rules.points_per_batch;
  bool has_empty_batch = false;
  for (std::int64_t begin = 0; begin < count; begin += batch) {
    const std::int64_t end = std::min(begin + batch, count);
    const std::vector<double> part(points.data() + 2 * begin, points.data() + 2 * end);
    const PointMaskJob job{ctx, crops, request.rules, box, request.crop.orig_hw};
    if (add_point_masks(job, part, records) == 0) has_empty_batch = true;
    ctx.check_interrupt();
  }
  return has_empty_batch;
}

PointMasks point_masks(TensorPredictor& predictor, const std::vector<Array<float>>& maps,
                       const Array<double>& points, const PointRequest& request) {
  if (points.ndim() != 2 || points.shape(1) != 2 || request.rules.points_per_batch < 1) {
    fail("points", "shape (N, 2), and batches of at least 1", shape_of(points, "points").str());
  }
  std::vector<ConstView> views;
  const std::vector<Shape> expected = predictor.map_shapes(false);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const ConstView map = sam_rlx::view_of(maps[i], "maps");
    if (maps.size() != expected.size() || map.shape != expected[i]) {
      fail("maps", std::to_string(expected.size()) + " of one image", map.shape.str());
    }
    views.push_back(map);
  }
  std::vector<MaskRecord> records;
  PointMasks out;
  {
    const GilRelease release;
    out.has_empty_batch = find(predictor, views, points, request, records);
  }
  const auto count = static_cast<std::int64_t>(records.size());
  out.scores = make_array<float>({count});
  out.boxes = make_array<std::int64_t>({count, 4});
  std::int64_t* corner = out.boxes.mutable_data();
  const CropBox& crop = request.crop.box;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const PixelBox& box = records[i].box;
    out.counts.append(counts_array(records[i].segmentation));
    out.scores.mutable_data()[i] = records[i].predicted_iou;
    for (const std::int64_t side :
         {box.x0 + crop.x0, box.y0 + crop.y0, box.x1 + crop.x0, box.y1 + crop.y0}) {
      *corner++ = side;
    }
  }
  return out;
}

}  // namespace

void register_point_masks(py::module_& m) {
  py::classh<PointMasks>(m, "PointMasks")
      .def_readonly("counts", &PointMasks::counts)
      .def_readonly("scores", &PointMasks::scores)
      .def_readonly("boxes", &PointMasks::boxes)
      .def_readonly("has_empty_batch", &PointMasks::has_empty_batch);
  // By the rules of transformers: points in the network's input, stability above its bound.
  m.def(
      "point_masks",
      [](TensorPredictor& predictor, const std::vector<Array<float>>& maps,
         const Array<double>& points, std::int64_t points_per_batch,
         std::array<std::int64_t, 4> crop_box, Pair orig_hw, Pair input_hw, double pred_iou_thresh,
         double stability_score_thresh, double stability_score_offset, double mask_threshold) {
        const auto [x0, y0, x1, y1] = crop_box;
        return point_masks(predictor, maps, points,
                           {.crop = {{x0, y0, x1, y1},
                                     {orig_hw.first, orig_hw.second},
                                     {input_hw.first, input_hw.second}},
                            .rules = {.points_per_batch = points_per_batch,
                                      .pred_iou_thresh = pred_iou_thresh,
                                      .stability_score_thresh = stability_score_thresh,
                                      .stability_score_offset = stability_score_offset,
                                      .above_stability = true},
                            .mask_threshold = mask_threshold});
      },
      py::arg("predictor"), py::arg("maps"), py::arg("points"), py::kw_only(),
      py::arg("points_per_batch"), py::arg("crop_box"), py::arg("orig_hw"), py::arg("input_hw"),
      py::arg("pred_iou_thresh"), py::arg("stability_score_thresh"),
      py::arg("stability_score_offset"), py::arg("mask_threshold"));
}

}  // namespace sam_rlx
