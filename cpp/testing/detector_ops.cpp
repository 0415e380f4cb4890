#include <pybind11/stl.h>

#include "ops/boxes.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/pixel_decoder.h"
#include "ops/sampling.h"
#include "ops/scores.h"
#include "testing/register.h"
#include "testing/testing.h"

namespace py = pybind11;
using namespace py::literals;

namespace sam_rlx {
namespace {

using Isa = std::optional<std::string>;

void register_sampling(py::module_& m) {
  m.def(
      "roi_align",
      [](const FloatArray& map, const FloatArray& boxes, std::int64_t size, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({boxes.shape(0), size, size, map.shape(2)});
        roi_align(test.context, view_of(map), view_of(boxes), mutable_view_of(out));
        return out;
      },
      "map"_a, "boxes"_a, "size"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "sample_points",
      [](const FloatArray& map, const FloatArray& points, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({points.shape(0), map.shape(2)});
        sample_points(test.context, view_of(map), view_of(points), mutable_view_of(out));
        return out;
      },
      "map"_a, "points"_a, "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_pixel_decoder(py::module_& m) {
  m.def(
      "group_norm",
      [](const FloatArray& x, const FloatArray& weight, const FloatArray& bias,
         std::int64_t num_groups, float eps, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const Workspace::Scope scope(test.context.workspace);
        const View scale = test.context.workspace.floats({weight.shape(0)});
        const View shift = test.context.workspace.floats({weight.shape(0)});
        group_norm_affine(test.context, view_of(x),
                          {num_groups, view_of(weight), view_of(bias), eps}, scale, shift);
        FloatArray out = make_array(shape_of(x));
        copy_(test.context, mutable_view_of(out), view_of(x));
        relu_affine_(test.context, mutable_view_of(out), scale, shift);
        return out;
      },
      "x"_a, "weight"_a, "bias"_a, "num_groups"_a, "eps"_a, "isa"_a = py::none(),
      "num_threads"_a = 1);
  m.def(
      "conv3x3_to_quarters",
      [](const FloatArray& x, const FloatArray& weight, const FloatArray& bias,
         const std::string& format, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const PackedMatrix packed =
            pack_conv(test.context.kernels, view_of(weight), weight_format_named(format));
        FloatArray out = make_array({4, x.shape(0) / 2, x.shape(1) / 2, packed.rows});
        conv3x3_to_quarters(test.context, view_of(x), packed, bias.data(), mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "bias"_a, "format"_a = "float32", "isa"_a = py::none(),
      "num_threads"_a = 1);
  m.def(
      "conv3x3_upsampled",
      [](const FloatArray& x, const FloatArray& weight, const FloatArray& residual,
         const std::string& format, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const UpsampledConv packed =
            pack_upsampled_conv(test.context.kernels, view_of(weight), weight_format_named(format));
        FloatArray out = make_array(shape_of(residual));
        conv3x3_upsampled(test.context, view_of(x), packed, view_of(residual),
                          mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "residual"_a, "format"_a = "float32", "isa"_a = py::none(),
      "num_threads"_a = 1);
  m.def(
      "map_products",
      [](const FloatArray& map, const FloatArray& scale, const FloatArray& shift,
         const FloatArray& vectors, const FloatArray& bias, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({vectors.shape(0), 2 * map.shape(1), 2 * map.shape(2)});
        map_products(
            test.context,
            {view_of(map), view_of(scale), view_of(shift), view_of(vectors), view_of(bias)},
            mutable_view_of(out));
        return out;
      },
      "map"_a, "scale"_a, "shift"_a, "vectors"_a, "bias"_a, "isa"_a = py::none(),
      "num_threads"_a = 1);
}

void register_boxes(py::module_& m) {
  m.def(
      "refine_boxes",
      [](const FloatArray& boxes, const FloatArray& delta, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(boxes));
        copy_(test.context, mutable_view_of(out), view_of(boxes));
        refine_boxes_(test.context, mutable_view_of(out), view_of(delta));
        return out;
      },
      "boxes"_a, "delta"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "box_corners",
      [](const FloatArray& boxes, float width, float height, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(boxes));
        box_corners(test.context, view_of(boxes), width, height, mutable_view_of(out));
        return out;
      },
      "boxes"_a, "width"_a, "height"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  // -> (n, H + W, 2): rows, then columns
  m.def(
      "box_distances",
      [](const FloatArray& boxes, std::int64_t height, std::int64_t width, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        const Workspace::Scope scope(test.context.workspace);
        const std::int64_t n = boxes.shape(0);
        const View rows = test.context.workspace.floats({n, height, 2});
        const View cols = test.context.workspace.floats({n, width, 2});
        box_distances(test.context, view_of(boxes), rows, cols);
        FloatArray out = make_array({n, height + width, 2});
        const View all = mutable_view_of(out);
        for (std::int64_t i = 0; i < n; ++i) {
          copy_(test.context, {all[i].data, rows[i].shape}, rows[i]);
          copy_(test.context, {all[i].data + 2 * height, cols[i].shape}, cols[i]);
        }
        return out;
      },
      "boxes"_a, "height"_a, "width"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "encode_coordinates",
      [](const FloatArray& x, const FloatArray& frequencies, const std::vector<int>& encoded,
         const std::vector<int>& plain, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const auto count = static_cast<std::int64_t>(encoded.size());
        FloatArray out = make_array({x.shape(0), count * 2 * frequencies.shape(0) +
                                                     static_cast<std::int64_t>(plain.size())});
        encode_coordinates(test.context, view_of(x), {view_of(frequencies), encoded, plain},
                           mutable_view_of(out));
        return out;
      },
      "x"_a, "frequencies"_a, "encoded"_a, "plain"_a, "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_scores(py::module_& m) {
  m.def(
      "mean_rows",
      [](const FloatArray& x, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({1, x.shape(1)});
        mean_rows(test.context, view_of(x), mutable_view_of(out));
        return out;
      },
      "x"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "dot_rows",
      [](const FloatArray& x, const FloatArray& vector, float scale, float limit, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({x.shape(0)});
        dot_rows(test.context, view_of(x), view_of(vector), scale, limit, mutable_view_of(out));
        return out;
      },
      "x"_a, "vector"_a, "scale"_a, "limit"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "presence_scores",
      [](const FloatArray& logits, float presence, bool joint, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(logits));
        (joint ? joint_logits : presence_scores)(test.context, view_of(logits), presence,
                                                 mutable_view_of(out));
        return out;
      },
      "logits"_a, "presence"_a, "joint"_a = false, "isa"_a = py::none(), "num_threads"_a = 1);
}

}  // namespace

void register_detector_ops(py::module_& module) {
  py::module_ ops = module.attr("ops");
  register_sampling(ops);
  register_pixel_decoder(ops);
  register_boxes(ops);
  register_scores(ops);
}

}  // namespace sam_rlx
