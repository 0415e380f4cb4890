#include <pybind11/stl.h>

#include <array>
#include <utility>

#include "bindings/numpy.h"
#include "core/error.h"
#include "kernels/kernel_table.h"
#include "layers/fold.h"
#include "layers/rope.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/bottleneck.h"
#include "ops/causal_attention.h"
#include "ops/conv.h"
#include "ops/conv_transpose.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/position_attention.h"
#include "ops/resize.h"
#include "ops/resize_antialias.h"
#include "ops/rope.h"
#include "ops/squeeze_excite.h"
#include "ops/weighted_conv.h"
#include "ops/window_partition.h"
#include "testing/register.h"
#include "testing/testing.h"

namespace py = pybind11;
using namespace py::literals;

namespace sam_rlx {
namespace {

using Isa = std::optional<std::string>;
using OptionalArray = std::optional<FloatArray>;

Activation activation_named(const std::string& name) {
  if (name == "none") return Activation::kNone;
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  fail("activation", "none, relu or gelu", name);
}

Epilogue make_epilogue(const OptionalArray& bias, const std::string& activation,
                       const OptionalArray& residual) {
  return {data_of(bias), activation_named(activation), view_of(residual)};
}

void register_linear(py::module_& m) {
  m.def(
      "linear",
      [](const FloatArray& x, const FloatArray& weight, const OptionalArray& bias,
         const std::string& activation, const OptionalArray& residual, bool in_place,
         const std::string& format, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const PackedMatrix packed =
            pack_matrix(test.context.kernels, view_of(weight), weight_format_named(format));
        FloatArray out = make_array(shape_of(x).with_last(packed.rows));
        Epilogue epilogue = make_epilogue(bias, activation, residual);
        if (in_place) {  // the residual is in the result's memory
          copy_(test.context, mutable_view_of(out), epilogue.residual);
          epilogue.residual = view_of(out);
        }
        linear(test.context, view_of(x), packed, epilogue, mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "bias"_a = py::none(), "activation"_a = "none", "residual"_a = py::none(),
      "in_place"_a = false, "format"_a = "float32", "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_conv(py::module_& m) {
  m.def(
      "conv2d",
      [](const FloatArray& x, const FloatArray& weight, std::int64_t stride, std::int64_t padding,
         const OptionalArray& bias, const std::string& activation, const OptionalArray& residual,
         const std::string& format, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const PackedMatrix packed =
            pack_conv(test.context.kernels, view_of(weight), weight_format_named(format));
        const ConvWindow window{weight.shape(2), stride, padding};
        FloatArray out = make_array(
            {x.shape(0), window.out_size(x.shape(1)), window.out_size(x.shape(2)), packed.rows});
        conv2d(test.context, view_of(x), window, packed, make_epilogue(bias, activation, residual),
               mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "stride"_a = 1, "padding"_a = 0, "bias"_a = py::none(),
      "activation"_a = "none", "residual"_a = py::none(), "format"_a = "float32",
      "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_more_convs(py::module_& m) {
  m.def(
      "conv_transpose2x2",
      [](const FloatArray& x, const FloatArray& weight, const FloatArray& bias,
         const std::string& activation, const std::string& format, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        const PackedConvTranspose packed = pack_conv_transpose2x2(
            test.context.kernels, view_of(weight), view_of(bias), weight_format_named(format));
        const Shape in = shape_of(x);
        FloatArray out = make_array({in[0], 2 * in[1], 2 * in[2], weight.shape(1)});
        conv_transpose2x2(test.context, view_of(x), packed, activation_named(activation),
                          mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "bias"_a, "activation"_a = "none", "format"_a = "float32",
      "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "depthwise_conv",
      [](const FloatArray& x, const FloatArray& weight, const FloatArray& bias, std::int64_t stride,
         const std::string& activation, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const DepthwiseArgs args{view_of(weight), view_of(bias), stride,
                                 activation_named(activation)};
        Shape shape = shape_of(x);
        for (const int axis : {1, 2}) {
          if (shape.rank() == 4 && stride > 0) shape[axis] = (shape[axis] - 1) / stride + 1;
        }
        FloatArray out = make_array(shape);
        depthwise_conv(test.context, view_of(x), args, mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "bias"_a, "stride"_a = 1, "activation"_a = "none", "isa"_a = py::none(),
      "num_threads"_a = 1);
}

void register_bottleneck(py::module_& m) {
  m.def(
      "bottleneck",
      [](const FloatArray& x, const std::array<FloatArray, 6>& weights, std::int64_t stride,
         const std::array<std::string, 3>& activations, const OptionalArray& residual,
         const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const auto& [expand, expand_bias, depthwise, depthwise_bias, project, project_bias] =
            weights;
        const PackedMatrix first = pack_matrix(test.context.kernels, view_of(expand));
        const PackedMatrix last = pack_matrix(test.context.kernels, view_of(project));
        BottleneckArgs args{.expand = first,
                            .project = last,
                            .expand_bias = expand_bias.data(),
                            .project_bias = project_bias.data(),
                            .depthwise = {view_of(depthwise), view_of(depthwise_bias), stride,
                                          activation_named(activations[1])},
                            .activation = activation_named(activations[0]),
                            .residual = view_of(residual),
                            .last = activation_named(activations[2])};
        const auto side = [&](int axis) { return (x.shape(axis) - 1) / stride + 1; };
        FloatArray out = make_array({x.shape(0), side(1), side(2), project.shape(0)});
        bottleneck(test.context, view_of(x), args, mutable_view_of(out));
        return out;
      },
      "x"_a, "weights"_a, "stride"_a = 1,
      "activations"_a = std::array<std::string, 3>{"none", "none", "none"},
      "residual"_a = py::none(), "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_fold(py::module_& m) {
  m.def(
      "folded_weight",
      [](const FloatArray& weight, const FloatArray& inner, int axis) {
        return to_numpy(folded_weight(view_of(weight), view_of(inner), axis));
      },
      "weight"_a, "inner"_a, "axis"_a = 0);
  m.def(
      "folded_bias",
      [](const FloatArray& weight, const OptionalArray& bias, const FloatArray& inner) {
        return to_numpy(folded_bias(view_of(weight), view_of(bias), view_of(inner)));
      },
      "weight"_a, "bias"_a, "inner"_a);
  m.def("transposed", [](const FloatArray& x) { return to_numpy(transposed(view_of(x))); }, "x"_a);
}

void register_rowwise(py::module_& m) {
  m.def(
      "layer_norm",
      [](const FloatArray& x, const FloatArray& weight, const FloatArray& bias, float eps,
         const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(x));
        layer_norm(test.context, view_of(x), view_of(weight), view_of(bias), eps,
                   mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "bias"_a, "eps"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "activation",
      [](const FloatArray& x, const std::string& name, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(x));
        copy_(test.context, mutable_view_of(out), view_of(x));
        activation_(test.context, activation_named(name), mutable_view_of(out));
        return out;
      },
      "x"_a, "name"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "add",
      [](const FloatArray& a, const FloatArray& b, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        const Workspace::Scope scope(test.context.workspace);
        FloatArray out = make_array(shape_of(a));
        copy_(test.context, mutable_view_of(out), add(test.context, view_of(a), view_of(b)));
        return out;
      },
      "a"_a, "b"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "transpose",
      [](const FloatArray& x, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({x.shape(1), x.shape(0)});
        transpose(test.context, view_of(x), mutable_view_of(out));
        return out;
      },
      "x"_a, "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_gates(py::module_& m) {
  m.def(
      "channel_means",
      [](const FloatArray& x, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({x.shape(0), x.shape(3)});
        channel_means(test.context, view_of(x), mutable_view_of(out));
        return out;
      },
      "x"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "gate_channels",
      [](const FloatArray& x, const FloatArray& logits, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(x));
        copy_(test.context, mutable_view_of(out), view_of(x));
        gate_channels_(test.context, mutable_view_of(out), view_of(logits));
        return out;
      },
      "x"_a, "logits"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "window_partition",
      [](const FloatArray& x, std::int64_t size, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out =
            make_array({x.shape(0) / size * (x.shape(1) / size), size * size, x.shape(2)});
        window_partition(test.context, view_of(x), size, mutable_view_of(out));
        return out;
      },
      "x"_a, "size"_a, "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_maps(py::module_& m) {
  m.def(
      "weighted_conv3x3",
      [](const FloatArray& map, const FloatArray& weight, const FloatArray& bias,
         const FloatArray& weights, const OptionalArray& beside, const OptionalArray& added,
         const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({map.shape(0), map.shape(1)});
        if (added) copy_(test.context, mutable_view_of(out), view_of(*added));
        weighted_conv3x3(test.context,
                         {.map = view_of(map),
                          .weight = view_of(weight),
                          .bias = view_of(bias),
                          .weights = view_of(weights),
                          .beside = beside ? view_of(*beside) : ConstView(),
                          .adds = added.has_value()},
                         mutable_view_of(out));
        return out;
      },
      "map"_a, "weight"_a, "bias"_a, "weights"_a, "beside"_a = py::none(), "added"_a = py::none(),
      "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "max_pool2x2",
      [](const FloatArray& x, std::int64_t channels, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({x.shape(0), x.shape(1) / 2, x.shape(2) / 2, channels});
        max_pool2x2(test.context, view_of(x), mutable_view_of(out));
        return out;
      },
      "x"_a, "channels"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "upsample_nearest2x_hwc",
      [](const FloatArray& x, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({2 * x.shape(0), 2 * x.shape(1), x.shape(2)});
        upsample_nearest2x_hwc(test.context, view_of(x), mutable_view_of(out));
        return out;
      },
      "x"_a, "isa"_a = py::none(), "num_threads"_a = 1);
}

constexpr std::pair<const char*, Products> kProducts[] = {
    {"float32", Products::kFloat32},
    {"bfloat16", Products::kBFloat16},
    {"int16", Products::kInt16},
};
Products products_named(const std::string& name) {
  for (const auto& [known, products] : kProducts) {
    if (name == known) return products;
  }
  fail("products", "float32, bfloat16 or int16", name);
}
const char* name_of(Products products) {
  for (const auto& [name, known] : kProducts) {
    if (known == products) return name;
  }
  return nullptr;
}
// What attention beside layers of a format multiplies; to positions of maps: without tile
// registers.
py::tuple attention_products(const std::string& format, const Isa& isa) {
  const TestContext test(isa, 1);
  const KernelTable& kernels = test.context.kernels;
  const WeightFormat beside = weight_format_named(format);
  return py::make_tuple(name_of(products_beside(kernels, beside)),
                        name_of(position_products_beside(kernels, beside)));
}

// q (B, N, heads * head_dim), k, v (B, M, ...); bias_h (B * heads, N - first, H), bias_w.
FloatArray run_attention(const FloatArray& q, const FloatArray& k, const FloatArray& v,
                         std::int64_t num_heads, float scale, const OptionalArray& bias_h,
                         const OptionalArray& bias_w, std::int64_t bias_first,
                         const std::string& products, const Isa& isa, int num_threads) {
  TestContext test(isa, num_threads);
  AttentionArgs args;
  args.num_heads = num_heads;
  args.head_dim = q.shape(2) / num_heads;
  args.value_dim = v.shape(2) / num_heads;
  args.scale = scale;
  args.query = {q.data(), q.shape(2)};
  args.key = {k.data(), k.shape(2)};
  args.value = {v.data(), v.shape(2)};
  args.batch = q.shape(0);
  args.num_queries = q.shape(1);
  args.num_keys = k.shape(1);
  args.bias = {view_of(bias_h), view_of(bias_w), bias_first};
  args.products = products_named(products);
  FloatArray out = make_array({args.batch, args.num_queries, v.shape(2)});
  attention(test.context, args, mutable_view_of(out));
  return out;
}

// Rows of tokens by their ids, and their attention.
void register_text(py::module_& m) {
  m.def(
      "causal_attention",
      [](const FloatArray& qkv, const std::vector<std::int64_t>& begins, std::int64_t num_heads,
         float scale, const std::vector<int>& hidden, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({qkv.shape(0), qkv.shape(1) / 3});
        const auto rows = std::make_unique<bool[]>(hidden.size());
        std::copy(hidden.begin(), hidden.end(), rows.get());
        causal_attention(
            test.context,
            {view_of(qkv), begins, num_heads, scale, hidden.empty() ? nullptr : rows.get()},
            mutable_view_of(out));
        return out;
      },
      "qkv"_a, "begins"_a, "num_heads"_a, "scale"_a, "hidden"_a = std::vector<int>(),
      "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "embedding",
      [](const FloatArray& table, const std::vector<std::int64_t>& ids, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        const auto count = static_cast<std::int64_t>(ids.size());
        FloatArray out = make_array({count, table.shape(1)});
        embedding(test.context, view_of(table), ids.data(), mutable_view_of(out));
        return out;
      },
      "table"_a, "ids"_a, "isa"_a = py::none(), "num_threads"_a = 1);
}

void register_attention(py::module_& m) {
  m.def("attention_products", &attention_products, "format"_a, "isa"_a = py::none());
  m.def("attention", &run_attention, "q"_a, "k"_a, "v"_a, "num_heads"_a, "scale"_a,
        "bias_h"_a = py::none(), "bias_w"_a = py::none(), "bias_first"_a = 0,
        "products"_a = "float32", "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "window_attention",
      [](const FloatArray& qkv, std::int64_t num_heads, std::int64_t window, float scale,
         const OptionalArray& rel_h, const OptionalArray& rel_w, const OptionalArray& pad_qkv,
         const OptionalArray& query, std::int64_t pad_stride, const OptionalArray& distance_bias,
         const std::string& products, const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        WindowAttentionArgs args;
        args.qkv = view_of(qkv);
        args.grid = {qkv.shape(1), qkv.shape(2), window};
        args.num_heads = num_heads;
        args.scale = scale;
        args.rel_pos = {data_of(rel_h), data_of(rel_w)};
        args.pad_qkv = data_of(pad_qkv);
        args.pad_stride = pad_stride;
        args.query = view_of(query);
        DistanceTerms distances;
        if (distance_bias) {
          distances = pack_distances(test.context, view_of(distance_bias), args.grid);
          args.distances = &distances;
        }
        args.products = products_named(products);
        FloatArray out =
            make_array(query ? args.query.shape : shape_of(qkv).with_last(qkv.shape(3) / 3));
        window_attention(test.context, args, mutable_view_of(out));
        return out;
      },
      "qkv"_a, "num_heads"_a, "window"_a, "scale"_a, "rel_h"_a = py::none(), "rel_w"_a = py::none(),
      "pad_qkv"_a = py::none(), "query"_a = py::none(), "pad_stride"_a = 0,
      "distance_bias"_a = py::none(), "products"_a = "float32", "isa"_a = py::none(),
      "num_threads"_a = 1);
}

// query (N, C), turned; weight (C, K), bias (C,), channels in halves; features (n, side^2, K), pos
// (side^2, K), tpos (n, K); tokens, token_pos (P, K) -> (N, K)
FloatArray run_position_attention(const FloatArray& query, const FloatArray& weight,
                                  const FloatArray& bias, const FloatArray& features,
                                  const FloatArray& pos, const FloatArray& tpos,
                                  const FloatArray& tokens, const FloatArray& token_pos,
                                  float scale, const std::string& products, const Isa& isa,
                                  int num_threads) {
  TestContext test(isa, num_threads);
  Context& ctx = test.context;
  std::int64_t side = 0;
  while (side * side < features.shape(1)) ++side;
  AxialRope rope(side, weight.shape(0), 10000.0);
  rope.build();
  const Workspace::Scope scratch(ctx.workspace);
  std::vector<PositionMap> maps;
  for (std::int64_t i = 0; i < features.shape(0); ++i) {
    maps.push_back({view_of(features)[i], view_of(pos), view_of(tpos)[i]});
  }
  const PackedPositions positions = pack_positions(ctx, side, maps, view_of(tokens),
                                                   view_of(token_pos), products_named(products));
  const PositionProjection projection = pack_position_projection(
      ctx.kernels, view_of(weight), view_of(bias), rope.centered(), products_named(products));
  FloatArray out = make_array({query.shape(0), weight.shape(1)});
  position_attention(ctx, {view_of(query), projection, positions, scale}, mutable_view_of(out));
  return out;
}

void register_planes(py::module_& m) {
  m.def("position_attention", &run_position_attention, "query"_a, "weight"_a, "bias"_a,
        "features"_a, "pos"_a, "tpos"_a, "tokens"_a, "token_pos"_a, "scale"_a,
        "products"_a = "float32", "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "resize_bilinear_antialias",
      [](const FloatArray& planes, std::int64_t height, std::int64_t width, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array({planes.shape(0), height, width});
        resize_bilinear_antialias(test.context, view_of(planes), mutable_view_of(out));
        return out;
      },
      "planes"_a, "height"_a, "width"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "rotate_heads",
      [](const FloatArray& map, const FloatArray& cos, const FloatArray& sin, std::int64_t heads,
         const Isa& isa, int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(map));
        copy_(test.context, mutable_view_of(out), view_of(map));
        rotate_heads_(test.context, {cos.shape(0), view_of(cos), view_of(sin)}, heads,
                      mutable_view_of(out));
        return out;
      },
      "map"_a, "cos"_a, "sin"_a, "heads"_a, "isa"_a = py::none(), "num_threads"_a = 1);
  m.def(
      "rotate",
      [](const FloatArray& x, const FloatArray& cos, const FloatArray& sin, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        FloatArray out = make_array(shape_of(x));
        copy_(test.context, mutable_view_of(out), view_of(x));
        rotate_(test.context, {cos.shape(0), view_of(cos), view_of(sin)}, mutable_view_of(out));
        return out;
      },
      "x"_a, "cos"_a, "sin"_a, "isa"_a = py::none(), "num_threads"_a = 1);
}

}  // namespace

void register_ops(py::module_& module) {
  py::module_ ops = module.def_submodule("ops", "Ops over NumPy arrays.");
  register_linear(ops);
  register_conv(ops);
  register_more_convs(ops);
  register_fold(ops);
  register_bottleneck(ops);
  register_maps(ops);
  register_gates(ops);
  register_rowwise(ops);
  register_attention(ops);
  register_text(ops);
  register_planes(ops);
  module.def(
      "op",
      [ops](const std::string& name, const py::args& args, const py::kwargs& kwargs) {
        return ops.attr(name.c_str())(*args, **kwargs);
      },
      "name"_a);
}

}  // namespace sam_rlx
