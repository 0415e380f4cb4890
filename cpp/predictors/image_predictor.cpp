#include "predictors/image_predictor.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/elementwise.h"

namespace sam_rlx {

InUse::InUse(std::atomic_flag& flag, const char* where) : flag_(flag) {
  if (flag_.test_and_set(std::memory_order_acquire)) {
    fail<StateError>(where, "one call at a time on a predictor", "a call that is still running");
  }
}

ImagePredictor::ImagePredictor(std::shared_ptr<const Model> model, int num_threads)
    : model_(std::move(model)) {
  const sam::SamConfig& config = model_->sam().config;
  transform_ = {config.image_encoder.img_size, config.pixel_mean, config.pixel_std};
  if (num_threads < 0 || num_threads > 1024) {
    fail("num_threads", "1 to 1024, or 0 for all cores", std::to_string(num_threads));
  }
  const int count = num_threads == 0 ? available_cores() : num_threads;
  for (int i = 0; i < count; ++i) workspaces_.push_back(std::make_unique<Workspace>());
}

Context ImagePredictor::context(int thread, int num_threads) {
  return {.kernels = model_->kernels(),
          .workspace = *workspaces_[static_cast<std::size_t>(thread)],
          .num_threads = num_threads,
          .trace = trace_,
          .poll_interrupt = poll_interrupt_};
}

// ---------------------------------------------------------------- the picture

void ImagePredictor::set_image(const ImageView& image) {
  const InUse guard(busy_, "set_image");
  const sam::Sam& sam = model_->sam();
  Context ctx = context(0, num_threads());
  const Workspace::Scope scratch(ctx.workspace);
  const View input = ctx.workspace.floats({1, transform_.side, transform_.side, 3});
  transform_.preprocess(ctx, image, input[0]);
  const View embedding = sam.image_encoder.forward(ctx, input);
  adopt_embedding(embedding[0], {image.height, image.width});
}

void ImagePredictor::set_image_embedding(ConstView embedding, Size orig_hw) {
  const InUse guard(busy_, "set_image_embedding");
  const sam::ImageEncoderConfig& config = model_->sam().config.image_encoder;
  const std::int64_t g = config.grid();
  const Shape expected{1, config.out_chans, g, g};
  if (embedding.shape != expected) {
    fail("image_embedding", "shape " + expected.str(), embedding.shape.str());
  }
  if (orig_hw.height < 1 || orig_hw.width < 1) {
    fail("orig_hw", "a height and width of at least 1",
         std::to_string(orig_hw.height) + " x " + std::to_string(orig_hw.width));
  }
  Context ctx = context(0, num_threads());
  const Workspace::Scope scratch(ctx.workspace);
  const View channels_last = ctx.workspace.floats({g * g, config.out_chans});
  transpose(ctx, embedding.reshape({config.out_chans, g * g}), channels_last);
  adopt_embedding(channels_last.reshape({g, g, config.out_chans}), orig_hw);
}

// Keeps an embedding (g, g, C), adds what prompts without a mask share, and projects the sum for
// the first decoder layer. The tensors of the picture before are used again.
void ImagePredictor::adopt_embedding(ConstView embedding, Size orig_hw) {
  const sam::Sam& sam = model_->sam();
  Context ctx = context(0, num_threads());
  ctx.poll_interrupt = nullptr;
  if (embedding_.empty()) {
    embedding_ = Tensor(embedding.shape);
    features_.embedding = Tensor(embedding.shape);
  }
  copy_(ctx, embedding_, embedding);
  copy_(ctx, features_.embedding, embedding);
  add_(ctx, features_.embedding, sam.prompt_encoder.no_mask_embed.weight);
  const Shape places{embedding.shape[0] * embedding.shape[1], embedding.shape[2]};
  sam.mask_decoder.transformer.layers.front().project_map(
      ctx, features_.embedding.view().reshape(places),
      sam.prompt_encoder.dense_pe.view().reshape(places), features_.projected);
  orig_hw_ = orig_hw;
}

void ImagePredictor::reset_image() {
  const InUse guard(busy_, "reset_image");
  embedding_ = Tensor();
  features_ = {};
  orig_hw_.reset();
}

namespace {

[[noreturn]] void fail_no_image(const char* where) {
  fail<StateError>(where, "a picture set by set_image or set_image_embedding", "none");
}

}  // namespace

Tensor ImagePredictor::image_embedding() const {
  if (!orig_hw_) fail_no_image("image_embedding");
  const Shape& shape = embedding_.shape();
  Tensor out({1, shape[2], shape[0], shape[1]});
  Workspace workspace;
  Context ctx{.kernels = model_->kernels(), .workspace = workspace};
  transpose(ctx, embedding_.view().reshape({shape[0] * shape[1], shape[2]}),
            out.view().reshape({shape[2], shape[0] * shape[1]}));
  return out;
}

Size ImagePredictor::orig_hw() const {
  if (!orig_hw_) fail_no_image("orig_hw");
  return *orig_hw_;
}

Size ImagePredictor::input_hw() const { return transform_.resized_hw(orig_hw()); }

// ---------------------------------------------------------------- masks

MaskGeometry ImagePredictor::mask_geometry() const {
  const std::int64_t low = model_->sam().config.prompt_encoder.mask_input_size();
  const Size input = input_hw();
  return {.low_height = low,
          .low_width = low,
          .side = transform_.side,
          .input_height = input.height,
          .input_width = input.width,
          .height = orig_hw().height,
          .width = orig_hw().width};
}

void ImagePredictor::upscale(ConstView low_res, View out) {
  const InUse guard(busy_, "predict");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  postprocess_masks(ctx, low_res, mask_geometry(), out);
}

void ImagePredictor::binarize(ConstView low_res, std::uint8_t* out) {
  const InUse guard(busy_, "predict");
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  binarize_masks(ctx, low_res, mask_geometry(), model_->sam().config.mask_threshold, out);
}

// ---------------------------------------------------------------- prompts

struct ImagePredictor::DecodeJob {
  Frame frame;
  MaskRange masks;
  bool all_masks;       // no threshold
  float iou_threshold;  // else: only masks above it
  View low_res, iou;
};

ImagePredictor::MaskRange ImagePredictor::mask_range(bool multimask_output) const {
  const std::int64_t multi = model_->sam().config.mask_decoder.num_multimask_outputs;
  return multimask_output ? MaskRange{1, multi} : MaskRange{0, 1};
}

void ImagePredictor::decode(const PromptBatch& prompts, Frame frame, bool multimask_output,
                            View low_res, View iou) {
  run_decode(prompts, {frame, mask_range(multimask_output), true, 0.0F, low_res, iou});
}

void ImagePredictor::decode_above(const PromptBatch& prompts, Frame frame,
                                  std::optional<float> iou_threshold, View low_res, View iou) {
  run_decode(prompts, {frame, mask_range(true), !iou_threshold.has_value(),
                       iou_threshold.value_or(0.0F), low_res, iou});
}

void ImagePredictor::run_decode(const PromptBatch& prompts, const DecodeJob& job) {
  const InUse guard(busy_, "predict");
  if (!orig_hw_) fail_no_image("predict");
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
        decode_one(ctx, prompts, begin + i, job);
      });
    }
    return;
  }
  Context ctx = context(0, threads);
  for (std::int64_t i = 0; i < prompts.batch; ++i) {
    ctx.check_interrupt();
    decode_one(ctx, prompts, i, job);
  }
}

namespace {

// Upstream's order of operations: scale in float64, round to the caller's precision, add half a
// pixel in that precision.
double shifted(double value, double scale, Frame frame) {
  if (frame == Frame::kOriginalFloat64) return value * scale + 0.5;
  const double scaled = frame == Frame::kModel ? value : value * scale;
  return static_cast<double>(static_cast<float>(scaled) + 0.5F);
}

}  // namespace

void ImagePredictor::decode_one(Context& ctx, const PromptBatch& prompts, std::int64_t index,
                                const DecodeJob& job) {
  const sam::Sam& sam = model_->sam();
  const Workspace::Scope scratch(ctx.workspace);

  const Size input = input_hw();
  const double scale_xy[2] = {
      static_cast<double>(input.width) / static_cast<double>(orig_hw_->width),
      static_cast<double>(input.height) / static_cast<double>(orig_hw_->height)};
  const auto to_model_frame = [&](const double* source, std::int64_t count) {
    auto* const out = ctx.workspace.array<double>(count);
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = shifted(source[i], scale_xy[i % 2], job.frame);
    return out;
  };
  sam::Prompt prompt;
  if (prompts.point_coords != nullptr) {
    prompt.num_points = prompts.num_points;
    prompt.points = to_model_frame(prompts.point_coords + index * 2 * prompts.num_points,
                                   2 * prompts.num_points);
    prompt.labels = prompts.point_labels + index * prompts.num_points;
  }
  if (prompts.boxes != nullptr) prompt.box = to_model_frame(prompts.boxes + index * 4, 4);

  const View sparse = ctx.workspace.floats(
      {sam::PromptEncoder::num_tokens(prompt), sam.prompt_encoder.config.embed_dim});
  sam.prompt_encoder.embed_tokens(prompt, sparse);
  ctx.record(sam.prompt_encoder.path + ".sparse_embeddings", sparse);

  sam::MaskDecoder::Inputs in{.map = features_.embedding,
                              .image_pe = sam.prompt_encoder.dense_pe,
                              .sparse = sparse,
                              .projected = &features_.projected};
  if (prompts.mask_input) {
    const View dense = sam.prompt_encoder.embed_mask(ctx, prompts.mask_input[index]);
    ctx.record(sam.prompt_encoder.path + ".dense_embeddings", dense);
    add_(ctx, dense, embedding_);
    in.map = dense[0];
    in.projected = nullptr;
  }
  const sam::MaskDecoder::Decoded decoded = sam.mask_decoder.decode(ctx, in);

  const float* const iou = decoded.iou_predictions.data + job.masks.first;
  std::copy(iou, iou + job.masks.count, job.iou.data + index * job.masks.count);
  if (job.all_masks) {
    sam.mask_decoder.predict_masks(ctx, decoded, job.masks.first, job.low_res[index]);
    return;
  }
  for (std::int64_t k = 0; k < job.masks.count; ++k) {
    if (!(iou[k] > job.iou_threshold)) continue;
    const View mask = job.low_res[index][k];
    sam.mask_decoder.predict_masks(ctx, decoded, job.masks.first + k,
                                   mask.reshape({1, mask.shape[0], mask.shape[1]}));
  }
}

}  // namespace sam_rlx
