#pragma once

#include <string>

#include "layers/conv.h"
#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam/config.h"
#include "models/sam/prompt_encoder.h"

// Upstream of all: segment_anything_hq/modeling/mask_decoder_hq.py, MaskDecoderHQ. Maps are
// channels last.

namespace sam_rlx::sam {

// Two transposed convolutions: a map of the image four times as large. Upstream: compress_vit_feat,
// embedding_encoder.
struct HqUpscaling {
  ConvTranspose2x2 conv1;  // 0
  LayerNorm norm;          // 1
  ConvTranspose2x2 conv2;  // 3
  std::string path;

  HqUpscaling() = default;
  HqUpscaling(std::int64_t in, std::int64_t hidden, std::int64_t out);
  void visit(ParamVisitor& v);
  // x (1, g, g, in) gives (1, 4g, 4g, out), added to `out` where `adds`.
  void forward(Context& ctx, ConstView x, bool adds, View out) const;
};

// Two convolutions of the upscaled map of a prompt. Upstream: embedding_maskfeature. The second one
// is multiplied with the token's vector before it is applied.
struct HqMaskFeature {
  Conv2d conv1;                     // 0
  LayerNorm norm;                   // 1
  std::int64_t channels = 0;        // of x, and of what the second convolution gives
  Tensor conv2_weight, conv2_bias;  // 3: (C, 2 * C, 3, 3)
  std::string path;

  HqMaskFeature() = default;
  explicit HqMaskFeature(std::int64_t count);
  void visit(ParamVisitor& v);
  // x (H, W, C) -> (H, W, 2 * C), what the second convolution is applied to.
  View forward_first(Context& ctx, ConstView x) const;
};

// A token of a mask decoder whose mask is made of a map that goes through more layers than that of
// the other tokens. C is the width of the decoder. Upstream of HQ-SAM 2, which has no more than
// this: sam2/modeling/sam/mask_hq_decoder.py, MaskDecoderHQ.
struct HqToken {
  TokenEmbedding hf_token;
  MLP hf_mlp;
  HqMaskFeature embedding_maskfeature;

  explicit HqToken(std::int64_t channels);
  void visit(ParamVisitor& v);

  // The mask of the HQ token (C,) after the transformer, added to `mask` (4g, 4g) where `adds`.
  // upscaled (4g, 4g, C / 8): what the other masks are made of; hq_features of the same shape, or
  // none: features of the image that are added to the map.
  struct Inputs {
    ConstView token, upscaled, hq_features = {};
    bool adds = true;
  };
  void predict_mask(Context& ctx, const Inputs& in, View mask) const;
};

// What SAM-HQ adds to a mask decoder: the token, and finer features of the image.
struct HqHead : HqToken {
  HqUpscaling compress_vit_feat, embedding_encoder;

  HqHead(const HqConfig& config, std::int64_t channels);
  void visit(ParamVisitor& v);

  // The same for all prompts of an image: image embedding (1, g, g, C) and the trunk's early map
  // (1, g, g, vit_dim), or none -> hq_features (4g, 4g, C / 8).
  void image_features(Context& ctx, ConstView embedding, ConstView early, View hq_features) const;
};

}  // namespace sam_rlx::sam
