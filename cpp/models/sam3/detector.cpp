#include "models/sam3/detector.h"

#include <algorithm>

#include "core/error.h"
#include "ops/elementwise.h"
#include "ops/scores.h"

namespace sam_rlx::sam3 {
namespace {

void resize(Tensor& tensor, const Shape& shape) {
  if (tensor.shape() != shape) tensor = Tensor(shape);
}

void check_levels(const NeckLevels& in, std::int64_t channels) {
  const std::int64_t height = in.level2.shape[0], width = in.level2.shape[1];
  const Shape expected2{height, width, channels}, expected1{2 * height, 2 * width, channels},
      expected0{4 * height, 4 * width, channels};
  if (in.level2.shape != expected2 || in.level1.shape != expected1 ||
      in.level0.shape != expected0) {
    fail("detector: levels", expected0.str() + ", " + expected1.str() + " and " + expected2.str(),
         in.level0.shape.str() + ", " + in.level1.shape.str() + " and " + in.level2.shape.str());
  }
}

void check_geometry(const DetectorConfig& config) {
  if (config.geometry) return;
  fail<UnsupportedError>("boxes, points and examples",
                         "texts: the checkpoint has no geometry_encoder.*", "boxes or points");
}

}  // namespace

void DetectorTransformer::visit(ParamVisitor& v) {
  v("encoder", encoder);
  v("decoder", decoder);
}

DetectorHeads::DetectorHeads(const DetectorConfig& sizes)
    : config(sizes),
      geometry_encoder(sizes),
      transformer{TransformerEncoderFusion(sizes), TransformerDecoder(sizes)},
      segmentation_head(sizes),
      dot_prod_scoring(sizes) {}

void DetectorHeads::visit(ParamVisitor& v) {
  v("geometry_encoder", geometry_encoder);
  v("transformer", transformer);
  v("segmentation_head", segmentation_head);
  v("dot_prod_scoring", dot_prod_scoring);
}

std::array<Tensor*, 5> DetectorFeatures::parts() {
  return {&map, &shared, &geometry_token, &levels.level1, &levels.level0};
}
std::array<const Tensor*, 5> DetectorFeatures::parts() const {
  return {&map, &shared, &geometry_token, &levels.level1, &levels.level0};
}

std::array<Shape, 5> DetectorHeads::part_shapes(std::int64_t grid) const {
  const std::int64_t g = grid, c = config.d_model;
  return {Shape{g, g, c}, {g * g, c}, {1, c}, {4, g, g, c}, {4, 2 * g, 2 * g, c}};
}

DetectorFeatures DetectorHeads::features_of(std::span<const ConstView> parts) const {
  DetectorFeatures features;
  std::size_t next = 0;
  for (Tensor* const part : features.parts()) *part = Tensor::copy_of(parts[next++]);
  const Shape& map = features.map.shape();
  features.pos = transformer.decoder.sine_embed.dense(map[0], map[1]);
  return features;
}

void DetectorHeads::prepare(Context& ctx, const NeckLevels& levels, DetectorFeatures& out) const {
  check_levels(levels, config.d_model);
  const Workspace::Scope scratch(ctx.workspace);
  const Shape& shape = levels.level2.shape;
  const Shape positions{shape[0] * shape[1], config.d_model};
  if (out.pos.shape() != shape) {
    out.pos = transformer.decoder.sine_embed.dense(shape[0], shape[1]);
  }
  resize(out.map, shape);
  resize(out.shared, positions);
  resize(out.geometry_token, {1, config.d_model});
  copy_(ctx, out.map, levels.level2);
  transformer.encoder.begin(ctx, levels.level2.reshape(positions),
                            out.pos.view().reshape(positions), out.shared);
  if (config.geometry) {
    copy_(ctx, out.geometry_token, geometry_encoder.forward(ctx, {}, out.map, out.pos));
  } else {
    std::fill_n(out.geometry_token.data(), config.d_model, 0.0F);
  }
  segmentation_head.pixel_decoder.begin(ctx, levels.level0, levels.level1, out.levels);
}

// Padded tokens are left out: attention to the prompt has no positions, and padding is masked
// wherever upstream reads it.
View DetectorHeads::encode_prompt(Context& ctx, const DetectorFeatures& features,
                                  const ConceptPrompt& prompt) const {
  const std::int64_t length = prompt.text.shape[0];
  const bool* const padding = prompt.text_padding;
  const auto counts = [&](std::int64_t i) { return padding == nullptr || !padding[i]; };
  std::int64_t words = 0;
  for (std::int64_t i = 0; i < length; ++i) words += counts(i) ? 1 : 0;
  const std::int64_t geometry = prompt.geometry.num_points() + prompt.geometry.num_boxes();
  std::int64_t examples = 0;
  for (const ConstView example : prompt.examples) examples += example.shape[0];
  // Examples bring class tokens of their images. Without own geometry the one of this image would
  // be one more: examples of an image are what its boxes are.
  const bool has_geometry = geometry > 0 || prompt.geometry.is_given;
  if (has_geometry || examples > 0) check_geometry(config);
  const bool has_class =
      has_geometry || (config.class_token && config.geometry && prompt.examples.empty());
  const std::int64_t own = geometry + (has_class ? 1 : 0);

  const View tokens = ctx.workspace.floats({words + own + examples, config.d_model});
  const Workspace::Scope scratch(ctx.workspace);
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    if (counts(i)) copy_(ctx, tokens[next++], prompt.text[i]);
  }
  const auto append = [&](ConstView encoded) {
    copy_(ctx, {tokens.data + next * config.d_model, encoded.shape}, encoded);
    next += encoded.shape[0];
  };
  if (geometry > 0) {
    append(geometry_encoder.forward(ctx, prompt.geometry, features.map, features.pos));
  } else if (has_class) {
    append(features.geometry_token);
  }
  for (const ConstView example : prompt.examples) append(example);
  return tokens;
}

View DetectorHeads::encode_examples(Context& ctx, const DetectorFeatures& features,
                                    const GeometricPrompt& geometry) const {
  check_geometry(config);
  return geometry_encoder.forward(ctx, geometry, features.map, features.pos);
}

Detections DetectorHeads::detect(Context& ctx, const DetectorFeatures& features,
                                 const ConceptPrompt& prompt, View reference_boxes) const {
  const Shape& map = features.map.shape();
  const ConstView pos = features.pos.view();
  Detections out;
  out.prompt = encode_prompt(ctx, features, prompt);
  out.encoder_hidden_states =
      transformer.encoder
          .finish(ctx, features.shared, pos.reshape(features.shared.shape()), out.prompt)
          .reshape(map);
  const TransformerDecoder::Decoded decoded = transformer.decoder.forward(
      ctx, {out.encoder_hidden_states, pos, out.prompt, reference_boxes});
  out.queries = decoded.hidden_states;
  out.boxes = decoded.boxes;
  out.presence_logit = decoded.presence_logit;
  out.logits = dot_prod_scoring.forward(ctx, out.queries, out.prompt);
  if (config.supervise_joint_box_scores) {
    joint_logits(ctx, out.logits, out.presence_logit, out.logits);
  }
  return out;
}

void DetectorHeads::segment(Context& ctx, const DetectorFeatures& features, const Detections& found,
                            const MaskRequest& request) const {
  const bool semantic = request.semantic.data != nullptr;
  if (request.kept.empty() && !semantic) return;
  const Workspace::Scope scratch(ctx.workspace);
  const PixelDecoder::Pixels pixels = segmentation_head.embed_pixels(
      ctx, found.encoder_hidden_states, found.prompt, features.levels);
  if (!request.kept.empty()) {
    const auto count = static_cast<std::int64_t>(request.kept.size());
    const View queries = ctx.workspace.floats({count, config.d_model});
    for (std::int64_t i = 0; i < count; ++i) {
      copy_(ctx, queries[i], found.queries[request.kept[static_cast<std::size_t>(i)]]);
    }
    segmentation_head.predict_masks(ctx, pixels, queries, request.masks);
  }
  if (semantic) segmentation_head.predict_semantic(ctx, pixels, request.semantic);
}

}  // namespace sam_rlx::sam3
