#include "models/sam3/tracker.h"

namespace sam_rlx::sam3 {
namespace {

// Upstream: sam3/model/model_misc.py, TransformerWrapper, which has an encoder only here.
struct TransformerWrapper {
  sam2::MemoryAttention& encoder;

  void visit(ParamVisitor& v) { v("encoder", encoder); }
};

// What a click, a box or a mask needs in SAM 3.1, and makes an object of. Upstream:
// sam3/model/video_tracking_multiplex.py, VideoTrackingMultiplex.
struct InteractiveHeads {
  sam2::Sam2Heads& heads;

  void visit(ParamVisitor& v) {
    v("interactivity_no_mem_embed", heads.no_mem_embed, {1, 1, heads.config.hidden_dim()});
    v("interactive_sam_prompt_encoder", heads.sam_prompt_encoder);
    v("interactive_sam_mask_decoder", heads.sam_mask_decoder);
    v("interactive_mask_downsample", heads.mask_downsample);
    v("interactive_obj_ptr_proj", heads.obj_ptr_proj);
    v("no_obj_ptr_linear", heads.no_obj_ptr_linear);
  }
};

}  // namespace

sam2::HeadsConfig tracker_heads(const VisionConfig& vision) {
  const std::int64_t width = vision.neck.d_model;
  sam2::HeadsConfig config;
  config.base.image_size = vision.trunk.img_size;
  config.base.backbone_stride = vision.trunk.patch_size;
  config.memory_bank.max_cond_frames_in_attn = 4;
  config.mask_decoder.transformer.numbered_mlp = false;
  config.mask_decoder.transformer.embedding_dim = width;
  config.memory_encoder.in_dim = width;
  config.memory_attention.d_model = width;
  config.memory_attention.feat_size = config.base.grid();
  return config;
}

void make_interactive(sam2::HeadsConfig& heads, const MultiplexConfig& multiplex) {
  heads.memory = false;
  heads.mask_decoder.iou_prediction_use_sigmoid = false;
  heads.base.sigmoid_scale_for_mem_enc = multiplex.sigmoid_scale_for_mem_enc;
  heads.base.sigmoid_bias_for_mem_enc = multiplex.sigmoid_bias_for_mem_enc;
  heads.base.binarize_mask_from_pts_for_mem_enc = false;
  heads.base.use_linear_no_obj_ptr = true;
}

Tracker::Tracker(const sam2::HeadsConfig& sizes, bool is_interactive)
    : heads(sizes), interactive(is_interactive) {}

void Tracker::visit(ParamVisitor& v) {
  if (interactive) {
    InteractiveHeads model{heads};
    v("model", model);
    return;
  }
  const std::int64_t channels = heads.config.hidden_dim(), width = heads.config.mem_dim();
  const std::int64_t frames = heads.config.memory_bank.num_maskmem;
  TransformerWrapper transformer{heads.memory_attention};
  v("no_mem_embed", heads.no_mem_embed, {1, 1, channels});
  v("sam_prompt_encoder", heads.sam_prompt_encoder);
  v("sam_mask_decoder", heads.sam_mask_decoder);
  if (!heads.config.memory) return;
  v("maskmem_tpos_enc", heads.maskmem_tpos_enc, {frames, 1, 1, width});
  v("no_mem_pos_enc", heads.no_mem_pos_enc, {1, 1, channels});
  v("no_obj_ptr", heads.no_obj_ptr, {1, channels});
  v("no_obj_embed_spatial", heads.no_obj_embed_spatial, {1, width});
  v("mask_downsample", heads.mask_downsample);
  v("transformer", transformer);
  v("maskmem_backbone", heads.memory_encoder);
  v("obj_ptr_proj", heads.obj_ptr_proj);
  v("obj_ptr_tpos_proj", heads.obj_ptr_tpos_proj);
}

void Tracker::fold_projections(Sam3DualViTDetNeck& neck) {
  neck.sam2_convs[0].conv_3x3.absorb(heads.sam_mask_decoder.conv_s0);
  neck.sam2_convs[1].conv_3x3.absorb(heads.sam_mask_decoder.conv_s1);
}

void Tracker::forward_image(Context& ctx, const Sam3DualViTDetNeck& neck, ConstView map,
                            sam2::ImageFeatures& out) const {
  const Workspace::Scope scratch(ctx.workspace);
  heads.adopt_features(ctx, neck.levels(ctx, map, neck.sam2_convs), out);
}

}  // namespace sam_rlx::sam3
