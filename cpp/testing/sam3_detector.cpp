#include "models/sam3/detector.h"
#include "ops/elementwise.h"
#include "testing/layer.h"

namespace sam_rlx {
namespace {

using Run = decltype(TestLayer::run);
using Labels = Array<std::int32_t>;

// The arrays of a geometric prompt, which it points into.
struct Geometry {
  Array<float> points, boxes;
  Labels point_labels, box_labels;
  bool box_positions = true;

  explicit Geometry(const Arrays& in) {
    if (has(in, "points")) {
      points = array_of(in, "points");
      point_labels = in.at("point_labels").cast<Labels>();
    }
    if (has(in, "boxes")) {
      boxes = array_of(in, "boxes");
      box_labels = in.at("box_labels").cast<Labels>();
    }
    if (has(in, "box_positions")) box_positions = in.at("box_positions").cast<bool>();
  }
  // Arrays of no rank are none.
  sam3::GeometricPrompt prompt() const {
    sam3::GeometricPrompt out;
    if (points.ndim() == 2) out.points = view_of(points, "points");
    if (boxes.ndim() == 2) out.boxes = view_of(boxes, "boxes");
    out.point_labels = point_labels.data();
    out.box_labels = box_labels.data();
    out.box_positions = box_positions;
    return out;
  }
};

// x, pos (M, C); prompt (T, C), or map and map_pos (P, C)
Run make_encoder_layer(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer =
      loaded(sam3::TransformerEncoderLayer(read_config<sam3::DetectorConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    Tensor x = Tensor::copy_of(view_of(array_of(in, "x"), "x"));
    if (has(in, "prompt")) {
      const Array<float> pos = array_of(in, "pos"), prompt = array_of(in, "prompt");
      layer->self_attention_(ctx, x, view_of(pos, "pos"));
      layer->attend_to_prompt_(ctx, x, view_of(prompt, "prompt"));
    } else {
      const Array<float> map = array_of(in, "map"), map_pos = array_of(in, "map_pos");
      layer->self_attention_(ctx, x, {});
      layer->attend_to_map_(ctx, x, view_of(map, "map"), view_of(map_pos, "map_pos"));
    }
    layer->feed_forward_(ctx, x);
    return to_numpy(std::move(x));
  };
}

// map, pos (H, W, C); points, boxes with labels; box_positions: bool -> (n + 1, C)
Run make_geometry_encoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer =
      loaded(sam3::SequenceGeometryEncoder(read_config<sam3::DetectorConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> map = array_of(in, "map"), pos = array_of(in, "pos");
    const Geometry geometry(in);
    return result_of(
        layer->forward(ctx, geometry.prompt(), view_of(map, "map"), view_of(pos, "pos")));
  };
}

// src, pos (M, C); prompt (T, C) -> (M, C)
Run make_fusion_encoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer =
      loaded(sam3::TransformerEncoderFusion(read_config<sam3::DetectorConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> src = array_of(in, "src"), pos = array_of(in, "pos");
    const Array<float> prompt = array_of(in, "prompt");
    const View shared = ctx.workspace.floats({src.shape(0), src.shape(1)});
    layer->begin(ctx, view_of(src, "src"), view_of(pos, "pos"), shared);
    return result_of(layer->finish(ctx, shared, view_of(pos, "pos"), view_of(prompt, "prompt")));
  };
}

// memory, pos (H, W, C); prompt (T, C) -> hidden states (Q, C), boxes (Q, 4), presence (1,)
Run make_decoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam3::TransformerDecoder(read_config<sam3::DetectorConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> memory = array_of(in, "memory"), pos = array_of(in, "pos");
    const Array<float> prompt = array_of(in, "prompt");
    const sam3::TransformerDecoder::Decoded out = layer->forward(
        ctx, {view_of(memory, "memory"), view_of(pos, "pos"), view_of(prompt, "prompt")});
    return py::make_tuple(result_of(out.hidden_states), result_of(out.boxes),
                          result_of({&out.presence_logit, Shape{1}}));
  };
}

// hs (Q, C), prompt (T, C) -> (Q,)
Run make_scoring(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam3::DotProductScoring(read_config<sam3::DetectorConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> hs = array_of(in, "hs"), prompt = array_of(in, "prompt");
    return result_of(layer->forward(ctx, view_of(hs, "hs"), view_of(prompt, "prompt")));
  };
}

// level0, level1, memory (H, W, C); prompt (T, C); queries (Q, C)
// -> masks (Q, 4 H, 4 W), semantic (1, 4 H, 4 W)
Run make_segmentation_head(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer =
      loaded(sam3::UniversalSegmentationHead(read_config<sam3::DetectorConfig>(c)), w, k);
  const auto levels = std::make_shared<sam3::PixelLevels>();
  return [layer, levels](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> level0 = array_of(in, "level0"), level1 = array_of(in, "level1");
    const Array<float> memory = array_of(in, "memory"), prompt = array_of(in, "prompt");
    const Array<float> queries = array_of(in, "queries");
    layer->pixel_decoder.begin(ctx, view_of(level0, "level0"), view_of(level1, "level1"), *levels);
    const sam3::PixelDecoder::Pixels pixels =
        layer->embed_pixels(ctx, view_of(memory, "memory"), view_of(prompt, "prompt"), *levels);
    Tensor masks({queries.shape(0), level0.shape(0), level0.shape(1)});
    Tensor semantic({1, level0.shape(0), level0.shape(1)});
    layer->predict_masks(ctx, pixels, view_of(queries, "queries"), masks);
    layer->predict_semantic(ctx, pixels, semantic);
    return py::make_tuple(to_numpy(std::move(masks)), to_numpy(std::move(semantic)));
  };
}

// level0, level1, level2 (H, W, C); text (B, L, C), padding (B, L) bool; geometry: a list of B
// dicts or none; kept: query indices or none; semantic: bool
// -> logits (B, Q), boxes (B, Q, 4), presence (B,) [, masks (B, K, ...)] [, semantic (B, ...)]
Run make_detector(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto heads = loaded(sam3::DetectorHeads(read_config<sam3::DetectorConfig>(c)), w, k);
  const auto features = std::make_shared<sam3::DetectorFeatures>();
  return [heads, features](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> level0 = array_of(in, "level0"), level1 = array_of(in, "level1");
    const Array<float> level2 = array_of(in, "level2"), text = array_of(in, "text");
    const auto padding = in.at("padding").cast<Array<bool>>();
    heads->prepare(
        ctx, {view_of(level0, "level0"), view_of(level1, "level1"), view_of(level2, "level2")},
        *features);
    const std::int64_t batch = text.shape(0), queries = heads->config.num_queries;
    const auto kept = has(in, "kept") ? in.at("kept").cast<std::vector<std::int64_t>>()
                                      : std::vector<std::int64_t>();
    const bool semantic = has(in, "semantic") && in.at("semantic").cast<bool>();
    const std::int64_t height = level0.shape(0), width = level0.shape(1);
    Tensor logits({batch, queries}), boxes({batch, queries, 4}), presence({batch});
    Tensor masks({batch, static_cast<std::int64_t>(kept.size()), height, width});
    Tensor semantics({batch, semantic ? 1 : 0, height, width});
    for (std::int64_t b = 0; b < batch; ++b) {
      const Workspace::Scope scratch(ctx.workspace);
      const Geometry geometry(
          has(in, "geometry")
              ? in.at("geometry").cast<py::list>()[static_cast<std::size_t>(b)].cast<Arrays>()
              : Arrays());
      const sam3::Detections found = heads->detect(
          ctx, *features,
          {view_of(text, "text")[b], padding.data() + b * text.shape(1), geometry.prompt()});
      copy_(ctx, logits.view()[b], found.logits);
      copy_(ctx, boxes.view()[b], found.boxes);
      presence.data()[b] = found.presence_logit;
      heads->segment(ctx, *features, found,
                     {.kept = kept,
                      .masks = masks.view()[b],
                      .semantic = semantic ? semantics.view()[b] : View()});
    }
    py::list out;
    for (Tensor* const tensor : {&logits, &boxes, &presence}) {
      out.append(to_numpy(std::move(*tensor)));
    }
    if (!kept.empty()) out.append(to_numpy(std::move(masks)));
    if (semantic) out.append(to_numpy(std::move(semantics)));
    return py::tuple(out);
  };
}

}  // namespace

const Makers& sam3_detector_makers() {
  static const Makers table{
      {"sam3.DetectorHeads", make_detector},
      {"sam3.DotProductScoring", make_scoring},
      {"sam3.SequenceGeometryEncoder", make_geometry_encoder},
      {"sam3.TransformerDecoder", make_decoder},
      {"sam3.TransformerEncoderFusion", make_fusion_encoder},
      {"sam3.TransformerEncoderLayer", make_encoder_layer},
      {"sam3.UniversalSegmentationHead", make_segmentation_head},
  };
  return table;
}

}  // namespace sam_rlx
