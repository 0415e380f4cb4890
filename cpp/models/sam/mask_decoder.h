#pragma once

#include <string>
#include <vector>

#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam/config.h"
#include "models/sam/prompt_encoder.h"
#include "models/sam/transformer.h"

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
};

// What all prompts of an image share that have no mask.
struct SharedFeatures {
  Tensor embedding;        // (g, g, C): the image embedding plus the no-mask embedding
  ProjectedMap projected;  // of the decoder's first layer
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
  std::string path;

  MaskDecoder() = default;
  explicit MaskDecoder(const MaskDecoderConfig& sizes);
  void visit(ParamVisitor& v);

  // Those that will be asked for: first, first + 1, ...
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
};

}  // namespace sam_rlx::sam
