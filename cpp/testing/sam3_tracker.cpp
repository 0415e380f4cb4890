#include "models/sam3/tracker.h"
#include "ops/elementwise.h"
#include "testing/layer.h"

// The click model of SAM 3.

namespace sam_rlx {
namespace {

using Run = decltype(TestLayer::run);

// Image encoder and tracker, as upstream's image model with clicks has them.
struct Clicks {
  sam3::Sam3DualViTDetNeck vision_backbone;
  sam3::Tracker tracker;

  void visit(ParamVisitor& v) {
    v("vision_backbone", vision_backbone);
    v("tracker", tracker);
  }
  void fold() { tracker.fold_projections(vision_backbone); }
};

sam2::HeadsConfig tracker_config(const py::dict& c, const sam3::VisionConfig& vision) {
  sam2::HeadsConfig config = sam3::tracker_heads(vision);
  config.memory_encoder.out_dim = get<std::int64_t>(c, "mem_dim", 64);
  config.memory_encoder.fuser_layers = get<std::int64_t>(c, "fuser_layers", 2);
  config.memory_attention.kv_in_dim = config.memory_encoder.out_dim;
  config.memory_attention.num_layers = get<std::int64_t>(c, "memory_layers", 4);
  config.memory_attention.dim_feedforward = get<std::int64_t>(c, "memory_feedforward", 2048);
  return config;
}

// Tokens of point_coords (P, 2) in pixels of the input and point_labels (P,), if there are any.
View sparse_embeddings(Context& ctx, const sam2::Sam2Heads& heads, const Arrays& in) {
  const std::int64_t channels = heads.config.hidden_dim();
  if (!has(in, "point_coords")) return ctx.workspace.floats({0, channels});
  const Array<float> coords = array_of(in, "point_coords");
  const auto labels = in.at("point_labels").cast<Array<std::int32_t>>();
  std::vector<double> points;
  for (py::ssize_t i = 0; i < coords.size(); ++i) points.push_back(coords.data()[i] + 0.5F);
  const sam::Prompt prompt{
      .points = points.data(), .labels = labels.data(), .num_points = labels.size()};
  const View out = ctx.workspace.floats({sam::PromptEncoder::num_tokens(prompt), channels});
  heads.sam_prompt_encoder.embed_tokens(prompt, out);
  return out;
}

// The embedding with mask (4g, 4g), or with what stands for none.
View prompted_map(Context& ctx, const sam2::Sam2Heads& heads, ConstView embedding,
                  const Arrays& in) {
  const sam::PromptEncoder& encoder = heads.sam_prompt_encoder;
  if (!has(in, "mask")) return add(ctx, embedding, encoder.no_mask_embed.weight);
  const Array<float> mask = array_of(in, "mask");
  const View out = encoder.embed_mask(ctx, view_of(mask, "mask"))[0];
  add_(ctx, out, embedding);
  return out;
}

// image (1, S, S, 3) normalized; point_coords and point_labels, corners of a box among them; mask:
// any may be absent; multimask_output
// -> embedding with no_mem_embed (g, g, C), masks (K, 4g, 4g) logits, iou (K,)
Run make_clicks(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto vision = read_config<sam3::VisionConfig>(c);
  const auto layer = loaded(
      Clicks{sam3::Sam3DualViTDetNeck(vision), sam3::Tracker(tracker_config(c, vision))}, w, k);
  const auto features = std::make_shared<sam2::ImageFeatures>();
  return [layer, features](Context& ctx, const Arrays& in) -> py::object {
    const sam2::Sam2Heads& heads = layer->tracker.heads;
    const sam2::MaskDecoder& decoder = heads.sam_mask_decoder;
    const Array<float> image = array_of(in, "image");
    const View map = layer->vision_backbone.forward_trunk(ctx, view_of(image, "image"));
    layer->tracker.forward_image(ctx, layer->vision_backbone, map, *features);
    const View embedding = heads.add_no_mem_embed(ctx, features->embedding);
    const sam2::MaskDecoder::Decoded decoded =
        decoder.decode(ctx, {.map = prompted_map(ctx, heads, embedding, in),
                             .image_pe = heads.sam_prompt_encoder.dense_pe,
                             .sparse = sparse_embeddings(ctx, heads, in)});
    const bool several = in.at("multimask_output").cast<bool>();
    const std::int64_t low = 4 * embedding.shape[0], count = several ? 3 : 1;
    const View masks = ctx.workspace.floats({count, low, low});
    std::int64_t first = 1;
    if (several) {
      decoder.predict_masks(ctx, decoded, features->high_res, first, masks);
    } else {
      first = decoder.predict_single_mask(ctx, decoded, features->high_res, masks[0]);
    }
    return py::make_tuple(result_of(embedding), result_of(masks),
                          result_of(ConstView(decoded.iou_predictions.data + first, {count})));
  };
}

}  // namespace

const Makers& sam3_tracker_makers() {
  static const Makers table{{"sam3.Clicks", make_clicks}};
  return table;
}

}  // namespace sam_rlx
