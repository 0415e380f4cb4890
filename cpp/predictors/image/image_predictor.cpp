#include "predictors/image/image_predictor.h"

#include <algorithm>
#include <string>

#include "core/cores.h"
#include "core/error.h"
#include "core/parallel.h"
#include "ops/elementwise.h"
#include "predictors/image/pooling.h"
#include "predictors/prompts.h"

namespace sam_rlx {
namespace {

// (..., H, W) -> (K, H, W)
Shape as_planes(const Shape& shape) {
  std::int64_t count = 1;
  for (int axis = 0; axis + 2 < shape.rank(); ++axis) count *= shape[axis];
  return {count, shape[shape.rank() - 2], shape[shape.rank() - 1]};
}

}  // namespace

int checked_num_threads(int num_threads) {
  if (num_threads < 0 || num_threads > 1024) {
    fail("num_threads", "1 to 1024, or 0 for all cores", std::to_string(num_threads));
  }
  return num_threads == 0 ? available_cores() : num_threads;
}

void check_embeddings(std::span<const ConstView> embeddings, std::span<const Shape> expected,
                      Size orig_hw) {
  if (embeddings.size() != expected.size()) {
    fail("image_embedding", std::to_string(expected.size()) + " arrays",
         std::to_string(embeddings.size()));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (embeddings[i].shape != expected[i]) {
      fail("image_embedding", "shape " + expected[i].str(), embeddings[i].shape.str());
    }
  }
  check_size("orig_hw", orig_hw);
}

ImagePredictor::ImagePredictor(std::shared_ptr<const Model> model, int num_threads, Resize resize)
    : model_(std::move(model)), state_(ImageState::make(model_, resize)) {
  const int count = checked_num_threads(num_threads);
  for (int i = 0; i < count; ++i) workspaces_.push_back(std::make_unique<Workspace>());
}

Context ImagePredictor::context(int thread, int num_threads) {
  return {.kernels = model_->kernels(),
          .workspace = *workspaces_[static_cast<std::size_t>(thread)],
          .num_threads = num_threads,
          .trace = trace_,
          .poll_interrupt = poll_interrupt_};
}

// ---------------------------------------------------------------- the image

void ImagePredictor::set_image(const ImageView& image) {
  const InUse guard(busy_, "set_image");
  const Size size{image.height, image.width};
  check_size("image", size);
  Context ctx = context();
  state_->encode(ctx, image);
  orig_hw_.set(size);
}

void ImagePredictor::set_input(ConstView pixel_values, Size orig_hw) {
  const InUse guard(busy_, "set_input");
  const std::int64_t side = model_->info().img_size;
  const Shape expected{1, 3, side, side};
  if (pixel_values.shape != expected) {
    fail("pixel_values", "shape " + expected.str(), pixel_values.shape.str());
  }
  check_size("orig_hw", orig_hw);
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const View input = ctx.workspace.floats({side, side, 3});
  to_channels_last(ctx, pixel_values, input);
  state_->encode_input(ctx, input);
  orig_hw_.set(orig_hw);
}

void ImagePredictor::set_image_embeddings(std::span<const ConstView> embeddings, Size orig_hw) {
  const InUse guard(busy_, "set_image_embedding");
  check_embeddings(embeddings, state_->embedding_shapes(), orig_hw);
  Context ctx = context();
  ctx.poll_interrupt = nullptr;
  state_->adopt(ctx, embeddings);
  orig_hw_.set(orig_hw);
}

void ImagePredictor::reset_image() {
  const InUse guard(busy_, "reset_image");
  state_->reset();
  orig_hw_.set(std::nullopt);
}

Size ImagePredictor::current_hw(const char* where) const {
  if (const std::optional<Size> size = orig_hw_.get()) return *size;
  fail<StateError>(where, "an image set by set_image or set_image_embedding", "none");
}

std::vector<Tensor> ImagePredictor::image_embeddings() const {
  const InUse guard(busy_, "image_embedding");
  current_hw("image_embedding");
  return state_->embeddings();
}

Tensor ImagePredictor::features(const std::uint8_t* mask) const {
  const InUse guard(busy_, "features");
  const Size orig_hw = current_hw("features");
  const std::vector<Tensor> embeddings = state_->embeddings();
  return pooled({.embedding = embeddings.front().view(),
                 .side = model_->info().img_size,
                 .input_hw = state_->input_hw(orig_hw),
                 .orig_hw = orig_hw},
                mask);
}

std::optional<Size> ImagePredictor::input_hw() const {
  const std::optional<Size> size = orig_hw_.get();
  return size ? std::optional(state_->input_hw(*size)) : std::nullopt;
}

MaskGeometry ImagePredictor::mask_geometry() const {
  return state_->mask_geometry(current_hw("predict"));
}

// ---------------------------------------------------------------- masks

ConstView ImagePredictor::without_small_regions(Context& ctx, ConstView low_res,
                                                const UpscaleOptions& options) const {
  const SmallRegions first{options.max_hole_area, options.max_sprinkle_area, threshold(options)};
  const SmallRegions then = state_->small_regions();
  if (!first.any() && !then.any()) return low_res;
  const View masks = ctx.workspace.floats(low_res.shape);
  copy_(ctx, masks, low_res);
  parallel_for(ctx.num_threads, masks.shape[0], 1, [&](std::int64_t begin, std::int64_t end, int) {
    const Shape one{1, masks.shape[1], masks.shape[2]};
    for (std::int64_t i = begin; i < end; ++i) {
      remove_small_regions_(masks[i].reshape(one), first);
      remove_small_regions_(masks[i].reshape(one), then);
    }
  });
  return masks;
}

void ImagePredictor::upscale(ConstView low_res, const UpscaleOptions& options, View out) {
  const InUse guard(busy_, "predict");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const ConstView masks =
      without_small_regions(ctx, low_res.reshape(as_planes(low_res.shape)), options);
  postprocess_masks(ctx, masks, mask_geometry(), out.reshape(as_planes(out.shape)));
}

void ImagePredictor::binarize(ConstView low_res, const UpscaleOptions& options, std::uint8_t* out) {
  const InUse guard(busy_, "predict");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const ConstView masks =
      without_small_regions(ctx, low_res.reshape(as_planes(low_res.shape)), options);
  binarize_masks(ctx, masks, mask_geometry(), threshold(options), out);
}

void ImagePredictor::finish_low_res_(View low_res) const {
  if (model_->family().defaults.clamps_low_res_masks) sam2::clamp_prompt_logits(low_res, low_res);
}

void ImagePredictor::check_hq_token_only(bool hq_token_only) const {
  const ModelInfo& info = model_->info();
  if (hq_token_only && !info.has_hq_token) {
    fail("hq_token_only", "false, or a model of SAM-HQ or HQ-SAM 2",
         info.family + " " + info.variant);
  }
}

void ImagePredictor::check_prompts(const PromptBatch& prompts, PromptRules rules) const {
  const auto count = static_cast<std::size_t>(prompts.batch);
  const bool is_upstream = rules == PromptRules::kUpstream;
  if (prompts.point_coords != nullptr) {
    const std::size_t points = count * static_cast<std::size_t>(prompts.num_points);
    const std::span labels(prompts.point_labels, points);
    const std::span coords(prompts.point_coords, 2 * points);
    is_upstream ? check_prompt_numbers("point_coords", coords)
                : check_prompt_points("point_coords", coords, labels);
  }
  if (prompts.boxes != nullptr) {
    const std::span boxes(prompts.boxes, 4 * count);
    is_upstream ? check_prompt_numbers("box", boxes) : check_prompt_boxes("box", boxes);
  }
  if (prompts.mask_input.data != nullptr) check_mask_input(prompts.mask_input);
}

void ImagePredictor::decode(const PromptBatch& prompts, const DecodeJob& job) {
  const InUse guard(busy_, "predict");
  const Size orig_hw = current_hw("predict");
  check_hq_token_only(job.hq_token_only);
  const int threads = num_threads();
  if (trace_ == nullptr && threads > 1 && prompts.batch >= threads) {
    // Many prompts: one a thread, so that its map stays in the cache.
    const std::int64_t step = 16 * threads;
    for (std::int64_t begin = 0; begin < prompts.batch; begin += step) {
      if (poll_interrupt_ != nullptr) poll_interrupt_();
      const std::int64_t count = std::min(step, prompts.batch - begin);
      parallel_for(threads, count, 1, [&](std::int64_t i, std::int64_t, int thread) {
        Context ctx = context(thread, 1);
        ctx.poll_interrupt = nullptr;
        state_->decode(ctx, prompts, begin + i, orig_hw, job);
      });
    }
    return;
  }
  Context ctx = context(0, threads);
  for (std::int64_t i = 0; i < prompts.batch; ++i) {
    ctx.check_interrupt();
    state_->decode(ctx, prompts, i, orig_hw, job);
  }
}

}  // namespace sam_rlx
