#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "layers/conv.h"
#include "layers/mlp.h"
#include "models/sam/prompt_encoder.h"
#include "models/sam2/config.h"
#include "models/sam2/image_encoder.h"
#include "models/sam2/mask_decoder.h"
#include "models/sam2/memory_attention.h"
#include "models/sam2/memory_bank.h"
#include "models/sam2/memory_encoder.h"
#include "models/sam2/spatial_perceiver.h"

namespace sam_rlx::sam2 {

// Logits of a mask where the object is not there. Upstream: NO_OBJ_SCORE.
constexpr float kNoObjScore = -1024.0F;
// A mask given by the user as logits. Upstream: _use_mask_as_output.
constexpr float kMaskScale = 20.0F, kMaskBias = -10.0F;
// Logits of a mask that becomes a prompt are at most so far from 0; so are those that upstream's
// image predictors give back.
constexpr float kMaxPromptLogit = 32.0F;
// in -> out, clamped so.
void clamp_prompt_logits(ConstView in, View out);

// What the heads say about one object on one frame.
struct SamOutputs {
  View low_res_mask;  // (4g, 4g) logits
  View obj_ptr;       // (C,)
  float iou_prediction = 0.0F;
  float object_score_logits = 0.0F;
};

// Several masks of a frame (M, 4g, 4g), which `choose` finds there, and the number of the one that
// is taken. iou_predictions (M,) are gone after the call.
struct AllMasks {
  View logits;
  std::function<std::int64_t(std::span<const float> iou_predictions)> choose;
};

// An output of an earlier frame: its memory and its pointer, read where they lie.
struct FrameMemory {
  ConstView maskmem_features;  // of memory_shape()
  ConstView obj_ptr;           // (C,)
};
// (frame, whether its output as a conditioning frame is meant)
using MemoryLookup = std::function<FrameMemory(std::int64_t frame, bool conditioning)>;

// What the prompts and the objects of an image share.
struct ImageFeatures {
  Tensor embedding;  // (g, g, C), without no_mem_embed
  HighResFeatures high_res;
};

// All of SAM 2 but its image encoder. Upstream: sam2/modeling/sam2_base.py, SAM2Base, for one
// object. Maps are channels last, (g, g, C) with g = image_size / backbone_stride.
struct Sam2Heads {
  HeadsConfig config;

  // Without config.memory the decoder, the prompts and no_mem_embed are all there is.
  Conv2d mask_downsample;
  MemoryAttention memory_attention;
  MemoryEncoder memory_encoder;
  Tensor maskmem_tpos_enc;                            // (num_maskmem, 1, 1, mem_dim)
  Tensor no_mem_embed;                                // (1, 1, C)
  Tensor no_mem_pos_enc;                              // (1, 1, C): in every checkpoint, never used
  Tensor no_obj_ptr;                                  // (1, C)
  Tensor no_obj_embed_spatial;                        // (1, mem_dim), 2.1
  std::optional<SpatialPerceiver> spatial_perceiver;  // EdgeTAM
  sam::PromptEncoder sam_prompt_encoder;
  MaskDecoder sam_mask_decoder;
  MLP obj_ptr_proj;
  Linear obj_ptr_tpos_proj;  // 2.1
  Linear no_obj_ptr_linear;  // SAM 3.1, instead of no_obj_ptr

  explicit Sam2Heads(const HeadsConfig& sizes);
  void visit(ParamVisitor& v);

  // Upstream's backbone_fpn, finest first, of which the two finer maps went through conv_s0 and
  // conv_s1: (1, 4g, 4g, C / 8), (1, 2g, 2g, C / 4), (1, g, g, C) -> out. Tensors of the right size
  // are used again.
  void adopt_features(Context& ctx, std::span<const View> fpn, ImageFeatures& out) const;

  // Embedding with no_mem_embed (g, g, C) -> what prompts without a mask share.
  void prepare(Context& ctx, ConstView embedding, sam::SharedFeatures& out) const {
    sam::share_features(ctx, sam_prompt_encoder, sam_mask_decoder.transformer, embedding, out);
  }

  // Prompt and mask decoder. No points, unless `prompt.has_points`, stand for one padding point;
  // its mask may be of any size. backbone_features: with the memory or no_mem_embed. Of several
  // masks only the one with the best predicted IoU is made, or all with `all_masks`. An object is
  // there with a score above min_object_score.
  struct HeadInputs {
    ConstView backbone_features;
    const HighResFeatures& high_res;
    sam::Prompt prompt = {};
    bool multimask_output = false;
    float min_object_score = 0.0F;
    const AllMasks* all_masks = nullptr;
  };
  SamOutputs forward_sam_heads(Context& ctx, const HeadInputs& in) const;

  // A mask (S, S) of zeros and ones is the output; S is image_size, or the side that the memory
  // encoder wants. backbone_features: plain. The pointer is that of the single mask, or of the best
  // of several.
  struct MaskInputs {
    ConstView backbone_features;
    const HighResFeatures& high_res;
    ConstView mask;
    bool multimask_output = false;
    float min_object_score = 0.0F;
  };
  SamOutputs use_mask_as_output(Context& ctx, const MaskInputs& in) const;

  // Of what a frame leaves behind for later ones: a map (g, g, mem_dim), or (tokens, mem_dim) with
  // a spatial perceiver.
  Shape memory_shape() const;
  // Encoding of its positions, of the same shape.
  Tensor memory_positions() const;

  // What a frame leaves behind for later ones -> memory_shape(). pix_feat: plain features; mask:
  // logits, square, resized to image_size unless they have the side that the memory encoder wants.
  // That encoder resizes what became of the logits, or they are resized twice before.
  struct NewMemory {
    ConstView pix_feat, mask;
    float object_score_logits = 0.0F;
    bool is_mask_from_pts = false;
    bool resizes_logits = false;
  };
  View encode_new_memory(Context& ctx, const NewMemory& in) const;

  // Features of a frame with what came before: `shared` is memory_attention.begin of the frame:
  // its objects share it. maskmem_pos_enc: memory_positions().
  View prepare_memory_conditioned_features(Context& ctx, ConstView shared,
                                           ConstView maskmem_pos_enc, const MemoryChoice& choice,
                                           const MemoryLookup& lookup) const;
  // The same for a frame without a past: features + no_mem_embed.
  View add_no_mem_embed(Context& ctx, ConstView pix_feat) const;

  // Whether several masks are made for a prompt of so many points, corners of a box included.
  bool use_multimask(bool is_init_cond_frame, std::int64_t num_points) const;

  // The pointer (C,) of an object that is not there says so.
  void gate_obj_ptr_(Context& ctx, View obj_ptr, bool is_obj_appearing) const;
  // Mask logits as the memory encoder takes them: (S, S), S as NewMemory tells.
  View scaled_mask(Context& ctx, const NewMemory& in) const;
};

// Upstream: sam2/modeling/sam2_base.py, SAM2Base.
struct Sam2 {
  Sam2Config config;
  ImageEncoder image_encoder;
  Sam2Heads heads;

  explicit Sam2(const Sam2Config& sizes);
  // The heads' parts stand at the top level of a checkpoint.
  void visit(ParamVisitor& v);
  // The decoder reads the two finer maps through conv_s0 and conv_s1 only: they become a part of
  // the neck's convolutions.
  void fold();

  // Normalized image (1, S, S, 3) -> out. Tensors of the right size are used again.
  void forward_image(Context& ctx, ConstView image, ImageFeatures& out) const;
};

// Sines, then cosines of positions (n,) -> out (n, dim). Upstream: sam2_utils.py, get_1d_sine_pe.
void get_1d_sine_pe(ConstView positions, View out);

}  // namespace sam_rlx::sam2
