#pragma once

#include <span>
#include <variant>

#include "models/sam/config.h"
#include "models/sam/image_encoder.h"
#include "models/sam/mask_decoder.h"
#include "models/sam/prompt_encoder.h"

namespace sam_rlx::sam {

using Trunk = std::variant<ImageEncoderViT, TinyViTEncoder>;

inline Trunk make_trunk(const ImageEncoderConfig& sizes) {
  if (sizes.tiny_vit) return TinyViTEncoder(sizes);
  return ImageEncoderViT(sizes);
}

// Upstream: segment_anything/modeling/sam.py, Sam.
struct Sam {
  SamConfig config;
  Trunk image_encoder;
  PromptEncoder prompt_encoder;
  MaskDecoder mask_decoder;

  explicit Sam(const SamConfig& sizes)
      : config(sizes),
        image_encoder(make_trunk(sizes.image_encoder)),
        prompt_encoder(sizes.prompt_encoder),
        mask_decoder(sizes.mask_decoder) {}

  void visit(ParamVisitor& v) {
    std::visit([&](auto& trunk) { v("image_encoder", trunk); }, image_encoder);
    v("prompt_encoder", prompt_encoder);
    v("mask_decoder", mask_decoder);
  }

  // What prompts need of an image. Normalized, padded image (1, S, S, 3) -> image embedding
  // (1, g, g, C) and, of SAM-HQ, hq_features (4g, 4g, C / 8).
  struct ImageMaps {
    View embedding, hq_features = {};
  };
  ImageMaps forward_image(Context& ctx, ConstView image) const {
    if (!mask_decoder.hq) return {forward_trunk(ctx, image)};
    const ImageEncoderConfig& sizes = config.image_encoder;
    const std::int64_t g = sizes.grid();
    const View hq_features = ctx.workspace.floats({4 * g, 4 * g, sizes.out_chans / 8});
    const View early = ctx.workspace.floats({1, g, g, sizes.early_dim()});
    const View embedding = forward_trunk(ctx, image, {&early, 1});
    mask_decoder.hq->image_features(ctx, embedding, early, hq_features);
    return {embedding, hq_features};
  }

  // The same without what is made of the maps: image embedding (1, g, g, C); `early` get the first
  // maps (1, g, g, early_dim) from inside the trunk.
  View forward_trunk(Context& ctx, ConstView image, std::span<const View> early = {}) const {
    return std::visit([&](const auto& trunk) { return trunk.forward(ctx, image, early); },
                      image_encoder);
  }

  // Image embedding (g, g, C) -> what prompts without a mask share.
  void prepare(Context& ctx, ConstView image_embedding, SharedFeatures& out) const {
    share_features(ctx, prompt_encoder, mask_decoder.transformer, image_embedding, out);
  }
};

}  // namespace sam_rlx::sam
