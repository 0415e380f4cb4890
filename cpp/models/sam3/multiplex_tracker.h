#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/sam2/memory_bank.h"
#include "models/sam2/memory_encoder.h"
#include "models/sam2/sam2.h"
#include "models/sam3/multiplex_attention.h"
#include "models/sam3/multiplex_mask_decoder.h"
#include "models/sam3/neck.h"

namespace sam_rlx::sam3 {

// What a frame left behind for a bucket, read where it lies.
struct BucketOutput {
  ConstView image;             // (g, g, C): the map of the frame
  ConstView maskmem_features;  // (g, g, C)
  ConstView obj_ptrs;          // (slots, C): zeros where no object was
};
using BucketLookup = std::function<BucketOutput(std::int64_t frame, bool conditioning)>;

// Follows the objects of a bucket, which lie in its slots. Upstream:
// sam3/model/video_tracking_multiplex.py, VideoTrackingMultiplex, for one bucket.
struct MultiplexTracker {
  MultiplexConfig config;
  sam2::MemoryBankConfig memory_bank;

  Tensor maskmem_tpos_enc;                          // (num_maskmem, 1, 1, C)
  Tensor no_obj_embed_spatial;                      // (slots, C)
  Tensor output_valid_embed, output_invalid_embed;  // (slots, C)
  Linear obj_ptr_tpos_proj;
  MLP obj_ptr_proj;
  sam::PositionEmbeddingRandom image_pe_layer;
  MultiplexAttention memory_attention;
  sam2::MaskDownSampler mask_downsampler;
  Conv2d pix_feat_proj;
  sam2::Fuser fuser;
  MultiplexMaskDecoder sam_mask_decoder;
  // Of the coarsest map: (g, g, C), for the decoder; (g * g, C), for keys.
  Tensor image_pe, memory_pos;

  explicit MultiplexTracker(const MultiplexConfig& sizes);
  void visit(ParamVisitor& v);
  void fold();
  // In the fold of the whole: conv_s0 and conv_s1 become a part of the neck's third set of
  // convolutions.
  void fold_projections(Sam3DualViTDetNeck& neck);

  // The trunk's map (1, g, g, C) -> out. Tensors of the right size are used again.
  void forward_image(Context& ctx, const Sam3DualViTDetNeck& neck, ConstView map,
                     sam2::ImageFeatures& out) const;

  // ---- the objects of a bucket
  // Features of a frame with what came before: `shared` is memory_attention.begin of its map
  // (g, g, C); buckets share both.
  View prepare_memory_conditioned_features(Context& ctx, ConstView shared, ConstView map,
                                           const sam2::MemoryChoice& choice,
                                           const BucketLookup& lookup) const;

  struct Inputs {
    ConstView backbone_features;  // with the memory
    const sam2::HighResFeatures& high_res;
    std::span<const std::int64_t> slots;  // that hold an object
  };
  // In the order of the slots. Of several masks only the one with the best predicted IoU is made.
  struct Outputs {
    View low_res_masks;  // (K, 4g, 4g) logits
    View obj_ptrs;       // (K, C)
    std::vector<float> iou_predictions, object_score_logits;
  };
  // heads: those for clicks, which know what an object that is not there leaves behind.
  Outputs forward_sam_heads(Context& ctx, const sam2::Sam2Heads& heads, const Inputs& in) const;

  // One of the objects on a frame.
  struct SlotMask {
    std::int64_t slot = 0;
    ConstView mask;  // logits, square
    float object_score_logits = 0.0F;
    bool is_conditioning = false;  // it was shown on this frame
  };
  // What a frame leaves behind for later ones -> (g, g, C). Slots without a mask count as those
  // whose object is not there.
  View encode_new_memory(Context& ctx, const sam2::Sam2Heads& heads, ConstView pix_feat,
                         std::span<const SlotMask> masks) const;

  Shape memory_shape() const;
};

}  // namespace sam_rlx::sam3
