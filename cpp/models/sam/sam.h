#pragma once

#include "models/sam/config.h"
#include "models/sam/image_encoder.h"
#include "models/sam/mask_decoder.h"
#include "models/sam/prompt_encoder.h"

namespace sam_rlx::sam {

// Upstream: segment_anything/modeling/sam.py, Sam.
struct Sam {
  SamConfig config;
  ImageEncoderViT image_encoder;
  PromptEncoder prompt_encoder;
  MaskDecoder mask_decoder;

  explicit Sam(const SamConfig& sizes)
      : config(sizes),
        image_encoder(sizes.image_encoder),
        prompt_encoder(sizes.prompt_encoder),
        mask_decoder(sizes.mask_decoder) {}

  void visit(ParamVisitor& v) {
    v("image_encoder", image_encoder);
    v("prompt_encoder", prompt_encoder);
    v("mask_decoder", mask_decoder);
  }

  // Normalized, padded image (1, S, S, 3) -> image embedding (1, g, g, C).
  View forward_image(Context& ctx, ConstView image) const {
    return image_encoder.forward(ctx, image);
  }

  // Image embedding (g, g, C) -> what prompts without a mask share.
  void prepare(Context& ctx, ConstView image_embedding, SharedFeatures& out) const {
    share_features(ctx, prompt_encoder, mask_decoder.transformer, image_embedding, out);
  }
};

}  // namespace sam_rlx::sam
