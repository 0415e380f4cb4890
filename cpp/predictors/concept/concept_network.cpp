#include "predictors/concept/concept_network.h"

#include <numeric>
#include <utility>

#include "core/error.h"
#include "ops/boxes.h"
#include "ops/elementwise.h"
#include "predictors/image/image_predictor.h"
#include "predictors/image/image_state.h"

namespace sam_rlx {
namespace {

constexpr std::size_t kDetectorLevels = 3;  // that it reads

// (H, W, C) -> (C, H, W)
Tensor level_channels_first(Context& ctx, ConstView map) {
  const std::int64_t positions = map.shape[0] * map.shape[1], channels = map.shape[2];
  Tensor out({channels, map.shape[0], map.shape[1]});
  transpose(ctx, map.reshape({positions, channels}), out.view().reshape({channels, positions}));
  return out;
}

}  // namespace

ConceptNetwork::ConceptNetwork(std::shared_ptr<const Model> model, int num_threads)
    : model_(std::move(model)), num_threads_(checked_num_threads(num_threads)) {
  model_->require_text("ConceptNetwork");
}

Context ConceptNetwork::context() {
  return {.kernels = model_->kernels(),
          .workspace = workspace_,
          .num_threads = num_threads_,
          .poll_interrupt = poll_interrupt_};
}

// ---------------------------------------------------------------- the image

View ConceptNetwork::channels_last(Context& ctx, ConstView map) const {
  const Shape& in = map.shape;
  const View out = ctx.workspace.floats({in[1], in[2], in[0]});
  to_channels_last(ctx, map.reshape({1, in[0], in[1], in[2]}), out);
  return out;
}

void ConceptNetwork::check_pixels(ConstView pixels) const {
  const std::int64_t side = model_->info().img_size;
  const Shape expected{network().config.vision.trunk.in_chans, side, side};
  if (pixels.shape != expected) {
    fail("pixel_values", "shape " + expected.str(), pixels.shape.str());
  }
}

std::vector<Shape> ConceptNetwork::level_shapes(std::size_t count) const {
  const sam3::VisionConfig& config = network().config.vision;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < count; ++i) {
    const double factor = config.neck.scale_factors.at(i);
    const auto side = static_cast<std::int64_t>(factor * static_cast<double>(config.trunk.grid()));
    shapes.push_back({config.neck.d_model, side, side});
  }
  return shapes;
}

void ConceptNetwork::set_pixels(ConstView pixels) {
  const InUse guard(busy_, "forward");
  check_pixels(pixels);
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const View image = channels_last(ctx, pixels);
  has_image_ = false;
  network().forward_image(ctx, image.reshape({1, image.shape[0], image.shape[1], image.shape[2]}),
                          {.detector = &features_});
  has_image_ = true;
}

void ConceptNetwork::set_levels(std::span<const ConstView> levels) {
  const InUse guard(busy_, "forward");
  const std::vector<Shape> expected = level_shapes(kDetectorLevels);
  if (levels.size() != kDetectorLevels) {
    fail("fpn_hidden_states", std::to_string(kDetectorLevels) + " maps",
         std::to_string(levels.size()));
  }
  for (std::size_t i = 0; i < kDetectorLevels; ++i) {
    if (levels[i].shape != expected[i]) {
      fail("fpn_hidden_states", "shape " + expected[i].str(), levels[i].shape.str());
    }
  }
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const View level0 = channels_last(ctx, levels[0]), level1 = channels_last(ctx, levels[1]),
             level2 = channels_last(ctx, levels[2]);
  has_image_ = false;
  network().detector.heads->prepare(ctx, {level0, level1, level2}, features_);
  has_image_ = true;
}

ConceptNetwork::Vision ConceptNetwork::vision(ConstView pixels) {
  const InUse guard(busy_, "get_vision_features");
  check_pixels(pixels);
  const sam3::Sam3DualViTDetNeck& vision = network().vision();
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const View image = channels_last(ctx, pixels);
  const View map =
      vision.forward_trunk(ctx, image.reshape({1, image.shape[0], image.shape[1], image.shape[2]}));
  const Shape& grid = map.shape;
  Vision out{.last_hidden_state = Tensor::copy_of(map.reshape({grid[1] * grid[2], grid[3]})),
             .levels = {}};
  for (const sam3::NeckBranch& branch : vision.convs) {
    const Workspace::Scope inner(ctx.workspace);
    const std::int64_t side = branch.side_of(grid[1]);
    const View level = ctx.workspace.floats({1, side, side, branch.out_channels()});
    branch.forward(ctx, map, level);
    out.levels.push_back(level_channels_first(ctx, level[0]));
    ctx.check_interrupt();
  }
  return out;
}

std::vector<Tensor> ConceptNetwork::position_encodings() {
  const InUse guard(busy_, "get_vision_features");
  Context ctx = context();
  const sam3::VisionConfig& config = network().config.vision;
  const PositionEmbeddingSine encoding{.num_pos_feats = config.neck.d_model};
  std::vector<Tensor> out;
  for (const Shape& shape : level_shapes(config.neck.scale_factors.size())) {
    out.push_back(level_channels_first(ctx, encoding.dense(shape[1], shape[2])));
  }
  return out;
}

// ---------------------------------------------------------------- prompts

ConceptNetwork::Texts ConceptNetwork::text(const sam3::TokenIds& ids, const bool* hidden) {
  const InUse guard(busy_, "get_text_features");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const sam3::VETextEncoder::AllRows rows =
      network().detector.backbone.language_backbone->forward_all(ctx, ids, hidden);
  return {Tensor::copy_of(rows.hidden_states), Tensor::copy_of(rows.tokens)};
}

ConceptNetwork::Found ConceptNetwork::detect(const sam3::ConceptPrompt& prompt) {
  const InUse guard(busy_, "forward");
  if (!has_image_) fail<StateError>("forward", "an image", "none");
  const sam3::DetectorHeads& heads = *network().detector.heads;
  const std::int64_t queries = heads.config.num_queries, side = model_->info().mask_side;
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  Found out{.logits = Tensor({queries}),
            .boxes = Tensor({queries, 4}),
            .reference_boxes = Tensor({heads.config.decoder_layers, queries, 4}),
            .masks = Tensor({queries, side, side}),
            .semantic_seg = Tensor({1, side, side})};
  const sam3::Detections found = heads.detect(ctx, features_, prompt, out.reference_boxes);
  copy_(ctx, out.logits, found.logits);
  box_corners(ctx, found.boxes, 1.0F, 1.0F, out.boxes);
  out.presence_logit = found.presence_logit;
  std::vector<std::int64_t> all(static_cast<std::size_t>(queries));
  std::iota(all.begin(), all.end(), 0);
  heads.segment(ctx, features_, found,
                {.kept = all, .masks = out.masks, .semantic = out.semantic_seg});
  return out;
}

}  // namespace sam_rlx
