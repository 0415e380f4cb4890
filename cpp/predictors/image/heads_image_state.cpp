#include <algorithm>
#include <utility>

#include "ops/elementwise.h"
#include "ops/mask_upscaling.h"
#include "predictors/image/image_state.h"

namespace sam_rlx {
namespace {

std::vector<Shape> shapes_of(const sam2::HeadsConfig& config) {
  const std::int64_t g = config.base.grid(), c = config.hidden_dim();
  return {{1, c, g, g}, {1, c / 8, 4 * g, 4 * g}, {1, c / 4, 2 * g, 2 * g}};
}

// The embedding of features_ holds no_mem_embed.
class HeadsImageState final : public ImageState {
 public:
  HeadsImageState(std::shared_ptr<const Model> model,
                  std::unique_ptr<const ImageFrontEnd> front_end, Resize resize);

  // The image embedding with no_mem_embed, then the two finer maps as the decoder takes them.
  std::vector<Shape> embedding_shapes() const override;
  std::vector<Tensor> embeddings() const override;
  void adopt(Context& ctx, std::span<const ConstView> embeddings) override;

  MaskGeometry mask_geometry(Size orig_hw) const override;
  // SAM 3: holes of at most 256 positions are filled.
  SmallRegions small_regions() const override;
  void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
              const DecodeJob& job) const override;

 private:
  ImageFrontEnd::Outputs outputs() override { return {.clicks = &features_}; }
  void prepare(Context& ctx) override;
  sam::Prompt prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        Frame frame) const;
  void predict_masks(Context& ctx, const sam2::MaskDecoder::Decoded& decoded, std::int64_t index,
                     const DecodeJob& job) const;

  const sam2::Sam2Heads& heads_;  // of the model
};

// ---------------------------------------------------------------- the image

HeadsImageState::HeadsImageState(std::shared_ptr<const Model> model,
                                 std::unique_ptr<const ImageFrontEnd> front_end, Resize resize)
    : ImageState(std::move(model), std::move(front_end), resize),
      heads_(this->front_end().heads()) {}

void HeadsImageState::prepare(Context& ctx) {
  add_(ctx, features_.embedding, heads_.no_mem_embed);
  heads_.prepare(ctx, features_.embedding, shared_);
}

std::vector<Shape> HeadsImageState::embedding_shapes() const { return shapes_of(heads_.config); }

std::vector<Tensor> HeadsImageState::embeddings() const {
  return embeddings_of(model().kernels(), heads_.config, features_);
}

void HeadsImageState::adopt(Context& ctx, std::span<const ConstView> embeddings) {
  const Workspace::Scope scratch(ctx.workspace);
  const auto channels_last = [&](ConstView map) {
    const View out = ctx.workspace.floats({map.shape[2], map.shape[3], map.shape[1]});
    to_channels_last(ctx, map, out);
    return out;
  };
  const View embedding = channels_last(embeddings[0]);
  if (features_.embedding.empty()) features_.embedding = Tensor(embedding.shape);
  copy_(ctx, features_.embedding, embedding);
  sam2::MaskDecoder::adopt_high_res(ctx, channels_last(embeddings[1]), channels_last(embeddings[2]),
                                    features_.high_res);
  heads_.prepare(ctx, features_.embedding, shared_);
}

MaskGeometry HeadsImageState::mask_geometry(Size orig_hw) const {
  const std::int64_t low = model().info().mask_side;
  return {.low_height = low, .low_width = low, .height = orig_hw.height, .width = orig_hw.width};
}

SmallRegions HeadsImageState::small_regions() const {
  return {.max_hole_area = model().family().defaults.max_hole_area,
          .max_sprinkle_area = 0.0,
          .mask_threshold = model().info().mask_threshold};
}

// ---------------------------------------------------------------- prompts

// A box is two points in front of the others. Upstream computes coordinates in float32: divided by
// the image's size, times the side of the input, plus half a pixel.
sam::Prompt HeadsImageState::prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index,
                                       Size orig_hw, Frame frame) const {
  constexpr std::int64_t kCorners = 2;
  constexpr std::int32_t kTopLeft = 2, kBottomRight = 3;
  sam::Prompt prompt;
  const std::int64_t corners = prompts.boxes == nullptr ? 0 : kCorners;
  const std::int64_t points = prompts.point_coords == nullptr ? 0 : prompts.num_points;
  prompt.num_points = corners + points;
  prompt.has_points = prompts.point_coords != nullptr;
  if (prompt.num_points == 0) return prompt;

  const float size_xy[2] = {static_cast<float>(orig_hw.width), static_cast<float>(orig_hw.height)};
  const auto side = static_cast<float>(front_end().side());
  auto* const coords = ctx.workspace.array<double>(2 * prompt.num_points);
  auto* const labels = ctx.workspace.array<std::int32_t>(prompt.num_points);
  const auto position = [&](const double* source, std::int64_t count, double* out) {
    for (std::int64_t i = 0; i < 2 * count; ++i) {
      const auto value = static_cast<float>(source[i]);
      const float scaled = frame == Frame::kModel ? value : value / size_xy[i % 2] * side;
      out[i] = static_cast<double>(scaled + 0.5F);
    }
  };
  if (corners > 0) {
    position(prompts.boxes + 4 * index, corners, coords);
    labels[0] = kTopLeft;
    labels[1] = kBottomRight;
  }
  if (points > 0) {
    position(prompts.point_coords + 2 * points * index, points, coords + 2 * corners);
    std::copy_n(prompts.point_labels + points * index, points, labels + corners);
  }
  prompt.points = coords;
  prompt.labels = labels;
  return prompt;
}

void HeadsImageState::decode(Context& ctx, const PromptBatch& prompts, std::int64_t index,
                             Size orig_hw, const DecodeJob& job) const {
  const sam::PromptEncoder& encoder = heads_.sam_prompt_encoder;
  const Workspace::Scope scratch(ctx.workspace);
  const sam::Prompt prompt = prompt_of(ctx, prompts, index, orig_hw, job.frame);
  // Without points and box there is no token at all.
  const std::int64_t tokens = sam::PromptEncoder::num_tokens(prompt);
  const View sparse = ctx.workspace.floats({tokens, heads_.config.hidden_dim()});
  if (tokens > 0) encoder.embed_tokens(prompt, sparse);
  ctx.record(encoder.path + ".sparse_embeddings", sparse);

  sam::MaskDecoder::Inputs in{.map = shared_.embedding,
                              .image_pe = encoder.dense_pe,
                              .sparse = sparse,
                              .projected = &shared_.projected};
  if (prompts.mask_input) {
    const View dense = encoder.embed_mask(ctx, prompts.mask_input[index]);
    ctx.record(encoder.path + ".dense_embeddings", dense);
    add_(ctx, dense, features_.embedding);
    in.map = dense[0];
    in.projected = nullptr;
  }
  predict_masks(ctx, heads_.sam_mask_decoder.decode(ctx, in), index, job);
}

void HeadsImageState::predict_masks(Context& ctx, const sam2::MaskDecoder::Decoded& decoded,
                                    std::int64_t index, const DecodeJob& job) const {
  const sam2::MaskDecoder& decoder = heads_.sam_mask_decoder;
  const std::int64_t count = job.iou.shape[1];
  const View low_res = job.low_res[index];
  float* const iou = job.iou.data + index * count;
  if (!job.multimask_output) {
    const std::int64_t chosen = decoder.predict_single_mask(ctx, decoded, features_.high_res,
                                                            low_res[0], job.hq_token_only);
    iou[0] = decoded.iou_predictions.data[chosen];
    return;
  }
  if (job.hq_token_only) {
    iou[0] = decoded.iou_predictions.data[decoder.best_multimask(decoded)];
    decoder.predict_hq_mask(ctx, decoded, features_.high_res, low_res[0]);
    return;
  }
  std::copy_n(decoded.iou_predictions.data + 1, count, iou);
  const auto wanted = [&](float score) { return !job.iou_threshold || score > *job.iou_threshold; };
  // The HQ token's mask is made once for all.
  if (!job.iou_threshold || (decoder.hq && std::any_of(iou, iou + count, wanted))) {
    decoder.predict_masks(ctx, decoded, features_.high_res, 1, low_res);
    return;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    if (!wanted(iou[k])) continue;
    const View mask = low_res[k];
    decoder.predict_masks(ctx, decoded, features_.high_res, 1 + k,
                          mask.reshape({1, mask.shape[0], mask.shape[1]}));
  }
}

}  // namespace

std::unique_ptr<ImageState> make_heads_image_state(std::shared_ptr<const Model> model,
                                                   std::unique_ptr<const ImageFrontEnd> front_end,
                                                   Resize resize) {
  return std::make_unique<HeadsImageState>(std::move(model), std::move(front_end), resize);
}

std::vector<Tensor> embeddings_of(const KernelTable& kernels, const sam2::HeadsConfig& config,
                                  const sam2::ImageFeatures& features) {
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  const std::vector<Shape> shapes = shapes_of(config);
  const auto restored = [&](ConstView rows, const Shape& shape) {
    const Workspace::Scope scratch(workspace);
    const View map = workspace.floats({shape[2], shape[3], shape[1]});
    merge_positions(ctx, rows, map);
    return to_channels_first(kernels, map);
  };
  std::vector<Tensor> out;
  out.push_back(to_channels_first(kernels, features.embedding));
  out.push_back(restored(features.high_res.s0, shapes[1]));
  out.push_back(restored(features.high_res.s1, shapes[2]));
  return out;
}

}  // namespace sam_rlx
