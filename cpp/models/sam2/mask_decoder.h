#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layers/mlp.h"
#include "models/sam/hq_head.h"
#include "models/sam/mask_decoder.h"
#include "models/sam2/config.h"

namespace sam_rlx::sam2 {

// The two finer maps of the image, projected for the decoder and laid out for its upscaling: made
// once an image.
struct HighResFeatures {
  Tensor s0;  // (g, 16 * C / 8, g): conv_s0 of the map (4g, 4g, C)
  Tensor s1;  // (g, 4 * C / 4, g): conv_s1 of the map (2g, 2g, C)
};

// Upstream: sam2/modeling/sam/mask_decoder.py, MaskDecoder, for one prompt.
struct MaskDecoder {
  MaskDecoderConfig config;

  sam::TwoWayTransformer transformer;
  sam::TokenEmbedding iou_token, mask_tokens, obj_score_token;
  sam::OutputUpscaling output_upscaling;
  Conv2d conv_s0, conv_s1;
  std::vector<MLP> output_hypernetworks_mlps;
  MLP iou_prediction_head, pred_obj_score_head;
  std::optional<sam::HqToken> hq;  // HQ-SAM 2; its parts are named as those of the decoder
  std::string path;

  MaskDecoder() = default;
  explicit MaskDecoder(const MaskDecoderConfig& sizes);
  void visit(ParamVisitor& v);

  // Maps of the backbone after conv_s0 and conv_s1, channels last: s0 (4g, 4g, C / 8), s1 (2g, 2g,
  // C / 4) -> out. Tensors of the right size are used again. Upstream: SAM2Base.forward_image.
  static void adopt_high_res(Context& ctx, ConstView s0, ConstView s1, HighResFeatures& out);

  // What the transformer leaves behind. Masks are made from it one by one, on demand.
  struct Decoded {
    View tokens;           // (2 + masks, C): object score, IoU, masks; HQ-SAM 2's behind
    View map;              // (g, g, C)
    View iou_predictions;  // (num_mask_tokens,), after the sigmoid if there is one
    float object_score_logit = 0.0F;

    // The output token of a mask (C,), from which the object pointer is made.
    ConstView mask_token(std::int64_t index) const { return tokens[2 + index]; }
  };
  Decoded decode(Context& ctx, const sam::MaskDecoder::Inputs& in) const;
  // Logits of the masks first, first + 1, ... -> masks (count, 4g, 4g). HQ-SAM 2: each with those
  // of the HQ token on top.
  void predict_masks(Context& ctx, const Decoded& decoded, const HighResFeatures& high_res,
                     std::int64_t first, View masks) const;
  // Logits of HQ-SAM 2's token alone -> mask (4g, 4g).
  void predict_hq_mask(Context& ctx, const Decoded& decoded, const HighResFeatures& high_res,
                       View mask) const;
  // The single mask -> mask (4g, 4g): mask 0, or the best other one when mask 0 is not stable.
  // Returns which one it is. HQ-SAM 2: chosen without the HQ token, whose logits then stand on top
  // or, with hq_token_only, alone.
  std::int64_t predict_single_mask(Context& ctx, const Decoded& decoded,
                                   const HighResFeatures& high_res, View mask,
                                   bool hq_token_only = false) const;
  // Of the masks behind mask 0, the one with the largest predicted IoU; the first of equal ones.
  std::int64_t best_multimask(const Decoded& decoded) const;

 private:
  std::int64_t num_output_tokens() const { return 2 + config.num_mask_tokens() + (hq ? 1 : 0); }
  // Logits without the HQ token's. `upscaled` (4g, 4g, C / 8), or none, gets the map that they are
  // made of.
  void upscale(Context& ctx, const Decoded& decoded, const HighResFeatures& high_res,
               std::int64_t first, View masks, View upscaled) const;
  View upscaled_for_hq(Context& ctx, const Decoded& decoded) const;  // none without the token
  void hq_mask(Context& ctx, const Decoded& decoded, ConstView upscaled, bool adds,
               View mask) const;
};

// Share of the positions above `delta` among those above -delta; 1 when there is none.
float stability_score(ConstView logits, float delta);

}  // namespace sam_rlx::sam2
