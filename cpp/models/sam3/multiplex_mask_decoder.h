#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layers/mlp.h"
#include "models/sam/mask_decoder.h"
#include "models/sam2/mask_decoder.h"
#include "models/sam3/multiplex_config.h"

namespace sam_rlx::sam3 {

// Masks of all objects of a bucket at once, without a prompt. Upstream:
// sam3/model/multiplex_mask_decoder.py, MultiplexMaskDecoder, with multimask_outputs_only.
struct MultiplexMaskDecoder {
  MultiplexMaskDecoderConfig config;
  std::int64_t multiplex_count = 0;

  sam::TwoWayTransformer transformer;
  sam::TokenEmbedding iou_token, mask_tokens, obj_score_token;
  sam::OutputUpscaling output_upscaling;
  Conv2d conv_s0, conv_s1;
  std::vector<MLP> output_hypernetworks_mlps;
  MLP iou_prediction_head, pred_obj_score_head;
  std::string path;

  MultiplexMaskDecoder() = default;
  MultiplexMaskDecoder(const MultiplexMaskDecoderConfig& sizes, std::int64_t slots);
  void visit(ParamVisitor& v);

  // What the transformer leaves behind. Masks are made from it on demand.
  struct Decoded {
    View tokens;               // object scores, IoUs, masks of the first slot, of the second, ...
    View map;                  // (g, g, C)
    View iou_predictions;      // (slots, num_multimask_outputs)
    View object_score_logits;  // (slots, 1)
  };
  // map, image_pe (g, g, C); slot_embed (slots, C): added to the mask tokens of each slot.
  struct Inputs {
    ConstView map, image_pe, slot_embed;
  };
  Decoded decode(Context& ctx, const Inputs& in) const;
  // One of the masks of a slot.
  struct Choice {
    std::int64_t slot = 0, mask = 0;
  };
  // That with the largest predicted IoU; the first of equal ones.
  Choice best(const Decoded& decoded, std::int64_t slot) const;
  // Its output token (C,).
  ConstView mask_token(const Decoded& decoded, const Choice& choice) const;
  // Logits -> masks (K, 4g, 4g).
  void predict_masks(Context& ctx, const Decoded& decoded, const sam2::HighResFeatures& high_res,
                     std::span<const Choice> choices, View masks) const;
};

}  // namespace sam_rlx::sam3
