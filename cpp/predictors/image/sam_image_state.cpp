#include <algorithm>
#include <utility>

#include "ops/elementwise.h"
#include "predictors/image/image_state.h"

namespace sam_rlx {
namespace {

class SamImageState final : public ImageState {
 public:
  SamImageState(std::shared_ptr<const Model> model, std::unique_ptr<const ImageFrontEnd> front_end,
                Resize resize)
      : ImageState(std::move(model), std::move(front_end), resize) {}

  std::vector<Shape> embedding_shapes() const override;
  std::vector<Tensor> embeddings() const override;
  void adopt(Context& ctx, std::span<const ConstView> embeddings) override;

  MaskGeometry mask_geometry(Size orig_hw) const override;
  void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
              const DecodeJob& job) const override;

 private:
  const sam::Sam& sam() const { return model().sam(); }
  ImageFrontEnd::Outputs outputs() override {
    return {.clicks = &features_, .hq_features = &shared_.hq_features};
  }
  void prepare(Context& ctx) override { sam().prepare(ctx, features_.embedding, shared_); }
  sam::Prompt prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        Frame frame) const;
  void decode_hq(Context& ctx, const sam::MaskDecoder::Inputs& in, std::int64_t index,
                 const DecodeJob& job) const;
};

// ---------------------------------------------------------------- the image

std::vector<Shape> SamImageState::embedding_shapes() const {
  const sam::ImageEncoderConfig& config = sam().config.image_encoder;
  const std::int64_t g = config.grid(), channels = config.out_chans;
  std::vector<Shape> shapes{{1, channels, g, g}};
  if (sam().mask_decoder.hq) shapes.push_back({1, channels / 8, 4 * g, 4 * g});
  return shapes;
}

std::vector<Tensor> SamImageState::embeddings() const {
  std::vector<Tensor> out;
  out.push_back(to_channels_first(model().kernels(), features_.embedding));
  if (sam().mask_decoder.hq) {
    out.push_back(to_channels_first(model().kernels(), shared_.hq_features));
  }
  return out;
}

void SamImageState::adopt(Context& ctx, std::span<const ConstView> embeddings) {
  const auto take = [&](ConstView map, Tensor& kept) {
    if (kept.empty()) kept = Tensor({map.shape[2], map.shape[3], map.shape[1]});
    to_channels_last(ctx, map, kept);
  };
  take(embeddings[0], features_.embedding);
  if (sam().mask_decoder.hq) take(embeddings[1], shared_.hq_features);
  prepare(ctx);
}

MaskGeometry SamImageState::mask_geometry(Size orig_hw) const {
  const std::int64_t low = sam().config.prompt_encoder.mask_input_size();
  const Size input = input_hw(orig_hw);
  return {.low_height = low,
          .low_width = low,
          .side = front_end().side(),
          .input_height = input.height,
          .input_width = input.width,
          .height = orig_hw.height,
          .width = orig_hw.width};
}

// ---------------------------------------------------------------- prompts

// Upstream's order of operations: scale in float64, round to the caller's precision, add half a
// pixel in that precision.
double shifted(double value, double scale, Frame frame) {
  if (frame == Frame::kOriginalFloat64) return value * scale + 0.5;
  const double scaled = frame == Frame::kModel ? value : value * scale;
  return static_cast<double>(static_cast<float>(scaled) + 0.5F);
}

sam::Prompt SamImageState::prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index,
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
    prompt.has_points = true;
    prompt.num_points = prompts.num_points;
    prompt.points = to_model_frame(prompts.point_coords + index * 2 * prompts.num_points,
                                   2 * prompts.num_points);
    prompt.labels = prompts.point_labels + index * prompts.num_points;
  }
  if (prompts.boxes != nullptr) prompt.box = to_model_frame(prompts.boxes + index * 4, 4);
  return prompt;
}

void SamImageState::decode(Context& ctx, const PromptBatch& prompts, std::int64_t index,
                           Size orig_hw, const DecodeJob& job) const {
  const sam::Sam& sam = this->sam();
  const Workspace::Scope scratch(ctx.workspace);
  const sam::Prompt prompt = prompt_of(ctx, prompts, index, orig_hw, job.frame);
  const View sparse = ctx.workspace.floats(
      {sam::PromptEncoder::num_tokens(prompt), sam.prompt_encoder.config.embed_dim});
  sam.prompt_encoder.embed_tokens(prompt, sparse);
  ctx.record(sam.prompt_encoder.path + ".sparse_embeddings", sparse);

  sam::MaskDecoder::Inputs in{.map = shared_.embedding,
                              .image_pe = sam.prompt_encoder.dense_pe,
                              .sparse = sparse,
                              .projected = &shared_.projected};
  if (prompts.mask_input) {
    const View dense = sam.prompt_encoder.embed_mask(ctx, prompts.mask_input[index]);
    ctx.record(sam.prompt_encoder.path + ".dense_embeddings", dense);
    add_(ctx, dense, features_.embedding);
    in.map = dense[0];
    in.projected = nullptr;
  }
  if (sam.mask_decoder.hq) return decode_hq(ctx, in, index, job);
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

// One mask: that of the HQ token, on top of the best of SAM's masks, or of its single one.
void SamImageState::decode_hq(Context& ctx, const sam::MaskDecoder::Inputs& in, std::int64_t index,
                              const DecodeJob& job) const {
  const sam::MaskDecoder& decoder = sam().mask_decoder;
  const sam::MaskDecoder::Decoded decoded =
      decoder.decode(ctx, in, decoder.hq_tokens(job.multimask_output ? 1 : 0));
  const std::int64_t best = job.multimask_output ? decoder.best_multimask(decoded) : 0;
  const float iou = decoded.iou_predictions.data[best];
  job.iou.data[index] = iou;
  if (job.iou_threshold && !(iou > *job.iou_threshold)) return;
  decoder.predict_hq_mask(ctx, decoded, shared_.hq_features,
                          job.hq_token_only ? std::nullopt : std::optional(best),
                          job.low_res[index][0]);
}

}  // namespace

std::unique_ptr<ImageState> make_sam_image_state(std::shared_ptr<const Model> model,
                                                 std::unique_ptr<const ImageFrontEnd> front_end,
                                                 Resize resize) {
  return std::make_unique<SamImageState>(std::move(model), std::move(front_end), resize);
}

}  // namespace sam_rlx
