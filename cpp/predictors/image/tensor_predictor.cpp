#include "predictors/image/tensor_predictor.h"

#include <algorithm>
#include <string>
#include <variant>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/elementwise.h"
#include "ops/resize_antialias.h"
#include "predictors/image/image_predictor.h"

namespace sam_rlx {
namespace {

Shape with_batch(std::int64_t batch, const Shape& one) {
  Shape shape{batch};
  for (int axis = 0; axis < one.rank(); ++axis) shape.push_back(one[axis]);
  return shape;
}

}  // namespace

std::unique_ptr<TensorPredictor> TensorPredictor::make(std::shared_ptr<const Model> model,
                                                       int num_threads) {
  const bool is_sam = std::holds_alternative<sam::Sam>(model->network());
  return (is_sam ? make_sam_tensor_predictor : make_heads_tensor_predictor)(std::move(model),
                                                                            num_threads);
}

TensorPredictor::TensorPredictor(std::shared_ptr<const Model> model, int num_threads)
    : model_(std::move(model)) {
  const int count = checked_num_threads(num_threads);
  for (int i = 0; i < count; ++i) workspaces_.push_back(std::make_unique<Workspace>());
}

Context TensorPredictor::context(std::size_t thread, int num_threads) {
  return {.kernels = model_->kernels(),
          .workspace = *workspaces_[thread],
          .num_threads = num_threads,
          .poll_interrupt = poll_interrupt_};
}

// ---------------------------------------------------------------- images

std::vector<Tensor> TensorPredictor::encode(ConstView pixel_values,
                                            const TensorEncoding& encoding) {
  const InUse guard(busy_, "encode");
  const Shape& shape = pixel_values.shape;
  std::vector<Tensor> out;
  for (const Shape& one : map_shapes(encoding.all_maps)) {
    out.emplace_back(with_batch(shape[0], one));
  }
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    Context ctx = context(0, static_cast<int>(workspaces_.size()));
    const Workspace::Scope scratch(ctx.workspace);
    const View image = ctx.workspace.floats({1, shape[2], shape[3], shape[1]});
    transpose(ctx, pixel_values[b].reshape({shape[1], shape[2] * shape[3]}),
              image.reshape({shape[2] * shape[3], shape[1]}));
    std::vector<View> maps;
    for (Tensor& map : out) maps.push_back(map.view()[b]);
    encode_image(ctx, image, encoding, maps);
  }
  return out;
}

// ---------------------------------------------------------------- prompts

std::int64_t TensorPredictor::num_tokens(const TensorPrompts& prompts) const {
  const bool corners_are_points = prompt_encoder().config.corner_labels;
  const std::int64_t points = prompts.point_coords == nullptr ? 0 : prompts.num_points;
  const std::int64_t corners = prompts.boxes == nullptr ? 0 : 2;
  if (prompts.point_coords == nullptr && corners == 0) return 0;
  return points + corners + (corners == 0 || corners_are_points ? 1 : 0);
}

// Half a pixel is added to coordinates. SAM 2's boxes are points behind the others, with a padding
// point at the end.
sam::Prompt TensorPredictor::prompt_of(Context& ctx, const TensorPrompts& prompts,
                                       std::int64_t set) const {
  constexpr std::int64_t kCorners = 2;
  constexpr double kHalfPixel = 0.5;
  constexpr std::int32_t kTopLeft = 2, kBottomRight = 3;
  const auto shifted = [](const double* from, std::int64_t count, double* to) {
    std::transform(from, from + count, to, [](double x) { return x + kHalfPixel; });
  };
  sam::Prompt prompt;
  const std::int64_t points = prompts.point_coords == nullptr ? 0 : prompts.num_points;
  auto* const coords = ctx.workspace.array<double>(2 * (points + kCorners));
  auto* const labels = ctx.workspace.array<std::int32_t>(points + kCorners);
  if (prompts.point_coords != nullptr) {
    shifted(prompts.point_coords + set * 2 * points, 2 * points, coords);
    std::copy_n(prompts.point_labels + set * points, points, labels);
    prompt.has_points = true;
  }
  prompt.points = coords;
  prompt.labels = labels;
  prompt.num_points = points;
  if (prompts.boxes == nullptr) return prompt;
  double* const box = coords + 2 * points;
  shifted(prompts.boxes + 4 * set, 2 * kCorners, box);
  if (prompt_encoder().config.corner_labels) {
    labels[points] = kTopLeft;
    labels[points + 1] = kBottomRight;
    prompt.num_points += kCorners;
  } else {
    prompt.box = box;
  }
  return prompt;
}

void TensorPredictor::embed_prompts(const TensorPrompts& prompts, View out) {
  const InUse guard(busy_, "embed_prompts");
  Context ctx = context(0, 1);
  const std::int64_t sets = prompts.images * prompts.sets;
  const View tokens = out.reshape({sets, out.shape[2], out.shape[3]});
  for (std::int64_t set = 0; set < sets; ++set) {
    const Workspace::Scope scratch(ctx.workspace);
    prompt_encoder().embed_tokens(prompt_of(ctx, prompts, set), tokens[set]);
  }
}

View TensorPredictor::embed_mask(Context& ctx, ConstView mask) const {
  const std::int64_t side = prompt_encoder().config.mask_input_size();
  if (mask.shape == Shape{side, side}) return prompt_encoder().embed_mask(ctx, mask);
  const View resized = ctx.workspace.floats({1, side, side});
  resize_bilinear_antialias(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), resized);
  return prompt_encoder().embed_mask(ctx, resized[0]);
}

Tensor TensorPredictor::dense_embeddings(const TensorPrompts& prompts) {
  const InUse guard(busy_, "dense_embeddings");
  Context ctx = context(0, static_cast<int>(workspaces_.size()));
  const sam::PromptEncoder& encoder = prompt_encoder();
  const std::int64_t g = encoder.config.image_embedding_size, c = encoder.config.embed_dim;
  const std::int64_t images = prompts.masks ? prompts.masks.shape[0] : 1;
  Tensor out({images, c, g, g});
  for (std::int64_t b = 0; b < images; ++b) {
    const Workspace::Scope scratch(ctx.workspace);
    const View map = out.view()[b].reshape({c, g * g});
    if (prompts.masks) {
      const View dense = embed_mask(ctx, prompts.masks[b]);
      transpose(ctx, dense.reshape({g * g, c}), map);
      continue;
    }
    const float* const no_mask = encoder.no_mask_embed.weight.data();
    for (std::int64_t i = 0; i < c; ++i) std::fill_n(map[i].data, g * g, no_mask[i]);
  }
  return out;
}

// ---------------------------------------------------------------- masks

std::int64_t TensorPredictor::num_scores(bool multimask_output) const {
  return multimask_output ? num_multimask_outputs() : 1;
}

std::int64_t TensorPredictor::num_masks(bool multimask_output, bool hq_token_only) const {
  return hq_token_only && has_hq_token() ? 1 : num_scores(multimask_output);
}

void TensorPredictor::share(Context& ctx, const sam::TwoWayTransformer& transformer,
                            ConstView embedding, ConstView mask, sam::SharedFeatures& out) const {
  const sam::PromptEncoder& encoder = prompt_encoder();
  if (!mask) return sam::share_features(ctx, encoder, transformer, embedding, out);
  const Workspace::Scope scratch(ctx.workspace);
  if (out.embedding.shape() != embedding.shape) out.embedding = Tensor(embedding.shape);
  copy_(ctx, out.embedding, embedding);
  add_(ctx, out.embedding, embed_mask(ctx, mask)[0]);
  transformer.project_map(ctx, out.embedding, encoder.dense_pe, out.projected);
}

void TensorPredictor::decode_one(Context& ctx, const TensorPrompts& prompts, const TensorJob& job,
                                 std::int64_t set) const {
  const Workspace::Scope scratch(ctx.workspace);
  const Shape& masks = job.masks.shape;
  const Shape all{masks[0] * masks[1], masks[2], masks[3], masks[4]};
  const std::int64_t scores = job.iou_scores.shape.last();
  decode_set(
      ctx, prompt_of(ctx, prompts, set), job,
      {.masks = job.masks.reshape(all)[set],
       .iou = job.iou_scores.data + set * scores,
       .object_score = job.object_scores.data == nullptr ? nullptr : job.object_scores.data + set});
}

void TensorPredictor::decode_image(const TensorPrompts& prompts, const TensorJob& job,
                                   std::int64_t first) {
  const int threads = num_threads();
  if (threads > 1 && prompts.sets >= threads) {
    // Many sets: one a thread, so that its map stays in the cache.
    parallel_for(threads, prompts.sets, 1, [&](std::int64_t i, std::int64_t, int thread) {
      Context own = context(static_cast<std::size_t>(thread), 1);
      own.poll_interrupt = nullptr;
      decode_one(own, prompts, job, first + i);
    });
    return;
  }
  Context ctx = context(0, threads);
  for (std::int64_t i = 0; i < prompts.sets; ++i) {
    ctx.check_interrupt();
    decode_one(ctx, prompts, job, first + i);
  }
}

void TensorPredictor::decode(std::span<const ConstView> maps, const TensorPrompts& prompts,
                             const TensorJob& job) {
  const InUse guard(busy_, "decode");
  for (std::int64_t b = 0; b < prompts.images; ++b) {
    Context ctx = context(0, num_threads());
    ctx.check_interrupt();
    std::vector<ConstView> one;
    for (const ConstView& map : maps) one.push_back(map[b]);
    adopt(ctx, one, prompts.masks ? prompts.masks[b] : ConstView{});
    decode_image(prompts, job, b * prompts.sets);
  }
}

void TensorPredictor::set_maps(std::span<const ConstView> maps) {
  const InUse guard(busy_, "set_maps");
  Context ctx = context(0, num_threads());
  adopt(ctx, maps, {});
}

void TensorPredictor::decode_sets(const TensorPrompts& prompts, const TensorJob& job) {
  const InUse guard(busy_, "decode_sets");
  decode_image(prompts, job, 0);
}

}  // namespace sam_rlx
