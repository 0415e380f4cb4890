#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam/config.h"
#include "models/sam/hq_head.h"
#include "models/sam/prompt_encoder.h"
#include "models/sam/transformer.h"
#include "ops/mask_upscaling.h"

namespace sam_rlx::sam {

// The two transposed convolutions behind the transformer. Upstream: mask_decoder.py,
// output_upscaling.
struct OutputUpscaling {
  std::int64_t in_channels = 0;
  Tensor conv1_weight, conv1_bias;  // 0: (C, C / 4, 2, 2)
  LayerNorm norm;                   // 1
  Tensor conv2_weight, conv2_bias;  // 3: (C / 4, C / 8, 2, 2)
  std::string path;

  void visit(ParamVisitor& v);
  void pack(const KernelTable& kernels);
  // What makes masks of vectors `hyper` (K, C / 8); more may be set.
  MaskUpscalingArgs of(ConstView map, ConstView hyper) const;
};

// What all prompts of an image share that have no mask.
struct SharedFeatures {
  Tensor embedding;        // (g, g, C): the image embedding plus the no-mask embedding
  ProjectedMap projected;  // of the decoder's first layer
  Tensor hq_features;      // (4g, 4g, C / 8): SAM-HQ, which prompts with a mask need too
};

// Image embedding (g, g, C) -> out. Tensors of the right size are used again.
void share_features(Context& ctx, const PromptEncoder& prompt_encoder,
                    const TwoWayTransformer& transformer, ConstView image_embedding,
                    SharedFeatures& out);

// Upstream: segment_anything/modeling/mask_decoder.py, MaskDecoder, for one prompt.
struct MaskDecoder {
  MaskDecoderConfig config;

  TwoWayTransformer transformer;
  TokenEmbedding iou_token, mask_tokens;
  OutputUpscaling output_upscaling;
  std::vector<MLP> output_hypernetworks_mlps;
  MLP iou_prediction_head;
  std::optional<HqHead> hq;  // SAM-HQ; its parts are named as those of the decoder
  std::string path;

  MaskDecoder() = default;
  explicit MaskDecoder(const MaskDecoderConfig& sizes);
  void visit(ParamVisitor& v);

  // Those that will be asked for: first, first + 1, ... The HQ token's stands behind the others.
  struct Masks {
    std::int64_t first = 0, count = 0;
  };
  // What the transformer leaves behind. Masks are made from it one by one, on demand.
  struct Decoded {
    Masks masks;
    View tokens;           // (1 + masks.count, C): IoU, masks
    View map;              // (g, g, C)
    View iou_predictions;  // (num_mask_tokens,)
  };
  // map (g, g, C) is the image embedding plus the prompt's dense embedding; `projected` holds its
  // projections when all prompts share it, else null. sparse (n, C), image_pe (1, g, g, C).
  struct Inputs {
    ConstView map, image_pe, sparse;
    const ProjectedMap* projected = nullptr;
  };
  Decoded decode(Context& ctx, const Inputs& in, Masks wanted) const;
  // Logits of the masks first, first + 1, ..., which are among decoded.masks -> (count, 4g, 4g).
  void predict_masks(Context& ctx, const Decoded& decoded, std::int64_t first, View masks) const;

  // What SAM-HQ's mask is made with: all output tokens from `first` on.
  Masks hq_tokens(std::int64_t first) const { return {first, num_output_tokens() - 1 - first}; }
  // Of the masks behind mask 0, the one with the largest predicted IoU; the first of equal ones.
  std::int64_t best_multimask(const Decoded& decoded) const;
  // Logits of SAM-HQ's mask: those of the HQ token, and of the mask `added` if there is one, which
  // is among decoded.masks -> mask (4g, 4g).
  void predict_hq_mask(Context& ctx, const Decoded& decoded, ConstView hq_features,
                       std::optional<std::int64_t> added, View mask) const;

 private:
  std::int64_t num_output_tokens() const { return 1 + config.num_mask_tokens() + (hq ? 1 : 0); }
  // Logits of the masks first, first + 1, ... -> (count, 4g, 4g). `upscaled` (4g, 4g, C / 8), or
  // none, gets the map that they are made of.
  void upscale(Context& ctx, const Decoded& decoded, std::int64_t first, View masks,
               View upscaled) const;
};

}  // namespace sam_rlx::sam
