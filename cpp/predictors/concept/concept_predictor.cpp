#include "predictors/concept/concept_predictor.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/error.h"
#include "ops/boxes.h"
#include "ops/elementwise.h"
#include "ops/scores.h"
#include "predictors/image/image_predictor.h"
#include "predictors/image/image_state.h"

namespace sam_rlx {
namespace {

// Texts that the text encoder reads at once: each pass streams all of its weights.
constexpr std::int64_t kTextsAtOnce = 32;

sam3::TokenIds part_of(const sam3::TokenIds& ids, std::int64_t begin) {
  return {ids.text(begin), std::min(kTextsAtOnce, ids.count - begin), ids.length};
}

}  // namespace

ConceptPredictor::ConceptPredictor(std::shared_ptr<const Model> model, int num_threads,
                                   Resize resize, bool clicks)
    : model_(std::move(model)),
      num_threads_(checked_num_threads(num_threads)),
      front_end_(ImageFrontEnd::make(model_)),
      resize_(resize),
      clicks_(clicks) {
  model_->require_text("ConceptPredictor");
  if (clicks_) front_end_->heads();
}

Context ConceptPredictor::context() {
  return {.kernels = model_->kernels(),
          .workspace = workspace_,
          .num_threads = num_threads_,
          .trace = trace_,
          .poll_interrupt = poll_interrupt_};
}

// ---------------------------------------------------------------- the image

void ConceptPredictor::set_image(const ImageView& image, std::optional<Size> orig_hw) {
  const InUse guard(busy_, "set_image");
  const Size size = orig_hw.value_or(Size{image.height, image.width});
  check_size("image", size);
  Context ctx = context();
  // Without clicks, nothing is written to the features before all that can be interrupted is done.
  std::shared_ptr<ConceptImage> concept_image = !clicks_ && concept_image_.use_count() == 1
                                                    ? concept_image_
                                                    : std::make_shared<ConceptImage>();
  sam2::ImageFeatures clicks;
  front_end_->encode(ctx, image, resize_,
                     {.clicks = clicks_ ? &clicks : nullptr, .detector = &concept_image->features});
  if (clicks_) {
    const sam2::Sam2Heads& heads = front_end_->heads();
    add_(ctx, clicks.embedding, heads.no_mem_embed);
    concept_image->click_embeddings = embeddings_of(ctx.kernels, heads.config, clicks);
  }
  concept_image->orig_hw = size;
  adopt(std::move(concept_image));
}

void ConceptPredictor::adopt(std::shared_ptr<ConceptImage> concept_image) noexcept {
  concept_image_ = std::move(concept_image);
  orig_hw_.set(concept_image_ == nullptr ? std::nullopt : std::optional(concept_image_->orig_hw));
}

std::shared_ptr<ConceptImage> ConceptPredictor::concept_image() const {
  const InUse guard(busy_, "concept_image");
  return concept_image_;
}

void ConceptPredictor::set_concept_image(std::shared_ptr<ConceptImage> concept_image) {
  const InUse guard(busy_, "set_concept_image");
  adopt(std::move(concept_image));
}

const ConceptImage& ConceptPredictor::current(const char* where) const {
  if (concept_image_ == nullptr) fail<StateError>(where, "an image set by set_image", "none");
  return *concept_image_;
}

std::vector<Tensor> ConceptPredictor::image_embeddings() const {
  const InUse guard(busy_, "image_embedding");
  std::vector<Tensor> out;
  for (const Tensor* const part : current("image_embedding").features.parts()) {
    out.push_back(part->clone());
  }
  return out;
}

void ConceptPredictor::set_image_embeddings(std::span<const ConstView> embeddings, Size orig_hw) {
  const InUse guard(busy_, "set_image_embedding");
  const sam3::Sam3& network = model_->sam3();
  check_embeddings(embeddings, network.detector_part_shapes(), orig_hw);
  auto concept_image = std::make_shared<ConceptImage>();
  concept_image->features = network.detector.heads->features_of(embeddings);
  concept_image->orig_hw = orig_hw;
  adopt(std::move(concept_image));
}

// ---------------------------------------------------------------- prompts

Tensor ConceptPredictor::encode_examples(const ConceptGeometry& geometry) {
  const InUse guard(busy_, "encode_examples");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const ConceptImage& image = current("encode_examples");
  return Tensor::copy_of(model_->sam3().detector.heads->encode_examples(
      ctx, image.features, geometric_prompt(ctx, geometry, image.orig_hw)));
}

void ConceptPredictor::check_examples(std::span<const ConstView> examples) const {
  const std::int64_t channels = model_->sam3().detector.heads->config.d_model;
  for (const ConstView example : examples) {
    const Shape& shape = example.shape;
    if (shape.rank() == 2 && shape[0] > 1 && shape[1] == channels) continue;
    fail("examples", "tokens (N, " + std::to_string(channels) + ") with N > 1", shape.str());
  }
}

void ConceptPredictor::encode_text(const sam3::TokenIds& texts) {
  const InUse guard(busy_, "predict");
  Context ctx = context();
  const std::int64_t count =
      std::min<std::int64_t>(texts.count, static_cast<std::int64_t>(TextCache::kTexts));
  for (std::int64_t begin = 0; begin < count; begin += kTextsAtOnce) {
    texts_.get(ctx, language_backbone(), part_of(texts, begin));
  }
}

// ---------------------------------------------------------------- instances

std::vector<ConceptFindings> ConceptPredictor::find(const ConceptRequest& request) {
  const InUse guard(busy_, "predict");
  check_examples(request.examples);
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const sam3::GeometricPrompt geometry =
      geometric_prompt(ctx, request.geometry, current("predict").orig_hw);
  const std::int64_t count = request.texts.count;
  std::vector<ConceptFindings> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t begin = 0; begin < count; begin += kTextsAtOnce) {
    for (const TextCache::Text* const text :
         texts_.get(ctx, language_backbone(), part_of(request.texts, begin))) {
      out.push_back(ground(ctx, *text, geometry, request));
      if (request.progress) request.progress(static_cast<std::int64_t>(out.size()), count);
      ctx.check_interrupt();
    }
  }
  return out;
}

ConceptFindings ConceptPredictor::ground(Context& ctx, const TextCache::Text& text,
                                         const sam3::GeometricPrompt& geometry,
                                         const ConceptRequest& request) const {
  const sam3::DetectorHeads& heads = *model_->sam3().detector.heads;
  const sam3::DetectorFeatures& features = concept_image_->features;
  const Size orig_hw = concept_image_->orig_hw;
  const Workspace::Scope scratch(ctx.workspace);
  const sam3::Detections found =
      heads.detect(ctx, features, {text.tokens, text.padding.get(), geometry, request.examples});

  const View scores = ctx.workspace.floats(found.logits.shape);
  if (request.options.presence) {
    presence_scores(ctx, found.logits, found.presence_logit, scores);
  } else {
    copy_(ctx, scores, found.logits);
    sigmoid_(ctx, scores);
  }
  ConceptFindings out;
  for (std::int64_t i = 0; i < scores.numel(); ++i) {
    if (scores.data[i] > static_cast<float>(request.options.threshold)) out.queries.push_back(i);
  }

  const auto kept = static_cast<std::int64_t>(out.queries.size()), side = model_->info().mask_side;
  const View boxes = ctx.workspace.floats(found.boxes.shape);
  box_corners(ctx, found.boxes, static_cast<float>(orig_hw.width),
              static_cast<float>(orig_hw.height), boxes);
  out.scores = Tensor({kept});
  out.boxes = Tensor({kept, 4});
  for (std::int64_t k = 0; k < kept; ++k) {
    const std::int64_t query = out.queries[static_cast<std::size_t>(k)];
    out.scores.data()[k] = scores.data[query];
    copy_(ctx, out.boxes.view()[k], boxes[query]);
  }
  out.low_res = Tensor({kept, side, side});
  if (!request.raw) {
    heads.segment(ctx, features, found, {.kept = out.queries, .masks = out.low_res});
    return out;
  }
  out.raw = raw_detections(ctx, found);
  for (std::int64_t k = 0; k < kept; ++k) {
    copy_(ctx, out.low_res.view()[k],
          out.raw->masks.view()[out.queries[static_cast<std::size_t>(k)]]);
  }
  return out;
}

RawDetections ConceptPredictor::raw_detections(Context& ctx, const sam3::Detections& found) const {
  const std::int64_t count = found.logits.numel(), side = model_->info().mask_side;
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  RawDetections out{.logits = Tensor::copy_of(found.logits),
                    .boxes = Tensor::copy_of(found.boxes),
                    .presence_logit = found.presence_logit,
                    .masks = Tensor({count, side, side}),
                    .semantic_seg = Tensor({1, side, side})};
  model_->sam3().detector.heads->segment(
      ctx, concept_image_->features, found,
      {.kept = all, .masks = out.masks, .semantic = out.semantic_seg});
  return out;
}

// ---------------------------------------------------------------- masks

MaskGeometry ConceptPredictor::mask_geometry(Size orig_hw) const {
  const std::int64_t low = model_->info().mask_side;
  return {.low_height = low, .low_width = low, .height = orig_hw.height, .width = orig_hw.width};
}

void ConceptPredictor::upscale(Size orig_hw, ConstView low_res, MaskValues values, View out) {
  const InUse guard(busy_, "predict");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  postprocess_masks(ctx, low_res, mask_geometry(orig_hw), out);
  if (values == MaskValues::kProbabilities) sigmoid_(ctx, out);
}

// Upstream compares probabilities with 1/2, which is the logit 0.
void ConceptPredictor::binarize(Size orig_hw, ConstView low_res, std::uint8_t* out) {
  const InUse guard(busy_, "predict");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  binarize_masks(ctx, low_res, mask_geometry(orig_hw), 0.0F, out);
}

}  // namespace sam_rlx
