#include "predictors/sam_picture.h"

#include <algorithm>

#include "ops/elementwise.h"

namespace sam_rlx {

SamPicture::SamPicture(std::shared_ptr<const Model> model) : model_(std::move(model)) {
  const sam::SamConfig& config = model_->sam().config;
  transform_ = {config.image_encoder.img_size, config.pixel_mean, config.pixel_std};
}

// ---------------------------------------------------------------- the picture

void SamPicture::encode(Context& ctx, const ImageView& image) {
  const Workspace::Scope scratch(ctx.workspace);
  const View input = ctx.workspace.floats({1, transform_.side, transform_.side, 3});
  transform_.preprocess(ctx, image, input[0]);
  const View embedding = model_->sam().image_encoder.forward(ctx, input);
  keep(ctx, embedding[0]);
}

std::vector<Shape> SamPicture::embedding_shapes() const {
  const sam::ImageEncoderConfig& config = model_->sam().config.image_encoder;
  return {{1, config.out_chans, config.grid(), config.grid()}};
}

std::vector<Tensor> SamPicture::embeddings() const {
  std::vector<Tensor> out;
  out.push_back(to_channels_first(model_->kernels(), embedding_));
  return out;
}

void SamPicture::adopt(Context& ctx, std::span<const ConstView> embeddings) {
  const Workspace::Scope scratch(ctx.workspace);
  const Shape& shape = embeddings[0].shape;
  const View map = ctx.workspace.floats({shape[2], shape[3], shape[1]});
  to_channels_last(ctx, embeddings[0], map);
  keep(ctx, map);
}

// Keeps an embedding (g, g, C), adds what prompts without a mask share, and projects the sum for
// the first decoder layer. The tensors of the picture before are used again.
void SamPicture::keep(Context& ctx, ConstView embedding) {
  const sam::Sam& sam = model_->sam();
  Context quiet = ctx;
  quiet.poll_interrupt = nullptr;  // all of it or nothing
  if (embedding_.empty()) {
    embedding_ = Tensor(embedding.shape);
    features_.embedding = Tensor(embedding.shape);
  }
  copy_(quiet, embedding_, embedding);
  copy_(quiet, features_.embedding, embedding);
  add_(quiet, features_.embedding, sam.prompt_encoder.no_mask_embed.weight);
  const Shape places{embedding.shape[0] * embedding.shape[1], embedding.shape[2]};
  sam.mask_decoder.transformer.layers.front().project_map(
      quiet, features_.embedding.view().reshape(places),
      sam.prompt_encoder.dense_pe.view().reshape(places), features_.projected);
}

void SamPicture::reset() {
  embedding_ = Tensor();
  features_ = {};
}

MaskGeometry SamPicture::mask_geometry(Size orig_hw) const {
  const std::int64_t low = model_->sam().config.prompt_encoder.mask_input_size();
  const Size input = input_hw(orig_hw);
  return {.low_height = low,
          .low_width = low,
          .side = transform_.side,
          .input_height = input.height,
          .input_width = input.width,
          .height = orig_hw.height,
          .width = orig_hw.width};
}

// ---------------------------------------------------------------- prompts

namespace {

// Upstream's order of operations: scale in float64, round to the caller's precision, add half a
// pixel in that precision.
double shifted(double value, double scale, Frame frame) {
  if (frame == Frame::kOriginalFloat64) return value * scale + 0.5;
  const double scaled = frame == Frame::kModel ? value : value * scale;
  return static_cast<double>(static_cast<float>(scaled) + 0.5F);
}

}  // namespace

sam::Prompt SamPicture::prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index,
                                  Size orig_hw, Frame frame) const {
  const Size input = input_hw(orig_hw);
  const double scale_xy[2] = {
      static_cast<double>(input.width) / static_cast<double>(orig_hw.width),
      static_cast<double>(input.height) / static_cast<double>(orig_hw.height)};
  const auto to_model_frame = [&](const double* source, std::int64_t count) {
    auto* const out = ctx.workspace.array<double>(count);
    for (std::int64_t i = 0; i < count; ++i) out[i] = shifted(source[i], scale_xy[i % 2], frame);
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
  return prompt;
}

void SamPicture::decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        const DecodeJob& job) const {
  const sam::Sam& sam = model_->sam();
  const Workspace::Scope scratch(ctx.workspace);
  const sam::Prompt prompt = prompt_of(ctx, prompts, index, orig_hw, job.frame);
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
  const std::int64_t first = job.multimask_output ? 1 : 0, count = job.iou.shape[1];
  const sam::MaskDecoder::Decoded decoded = sam.mask_decoder.decode(ctx, in, {first, count});
  const float* const iou = decoded.iou_predictions.data + first;
  std::copy(iou, iou + count, job.iou.data + index * count);
  if (!job.iou_threshold) {
    sam.mask_decoder.predict_masks(ctx, decoded, first, job.low_res[index]);
    return;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    if (!(iou[k] > *job.iou_threshold)) continue;
    const View mask = job.low_res[index][k];
    sam.mask_decoder.predict_masks(ctx, decoded, first + k,
                                   mask.reshape({1, mask.shape[0], mask.shape[1]}));
  }
}

}  // namespace sam_rlx
