#include "bindings/model_config.h"

#include <pybind11/stl.h>

namespace sam_rlx {
namespace {

py::dict encoder_config(const sam::ImageEncoderConfig& c) {
  using namespace py::literals;
  return py::dict("img_size"_a = c.img_size, "patch_size"_a = c.patch_size,
                  "embed_dim"_a = c.embed_dim, "depth"_a = c.depth, "num_heads"_a = c.num_heads,
                  "mlp_dim"_a = c.mlp_dim, "out_chans"_a = c.out_chans,
                  "window_size"_a = c.window_size, "global_attn_indexes"_a = c.global_attn_indexes);
}

py::dict transformer_config(const sam::TwoWayTransformerConfig& c) {
  using namespace py::literals;
  return py::dict("transformer_depth"_a = c.depth, "embedding_dim"_a = c.embedding_dim,
                  "num_heads"_a = c.num_heads, "mlp_dim"_a = c.mlp_dim);
}

}  // namespace

py::dict sam_config(const sam::SamConfig& c) {
  using namespace py::literals;
  py::dict decoder = transformer_config(c.mask_decoder.transformer);
  decoder["num_multimask_outputs"] = c.mask_decoder.num_multimask_outputs;
  decoder["iou_head_depth"] = c.mask_decoder.iou_head_depth;
  decoder["iou_head_hidden_dim"] = c.mask_decoder.iou_head_hidden_dim;
  return py::dict("image_encoder"_a = encoder_config(c.image_encoder),
                  "prompt_encoder"_a =
                      py::dict("embed_dim"_a = c.prompt_encoder.embed_dim,
                               "image_embedding_size"_a = c.prompt_encoder.image_embedding_size,
                               "input_image_size"_a = c.prompt_encoder.input_image_size,
                               "mask_in_chans"_a = c.prompt_encoder.mask_in_chans),
                  "mask_decoder"_a = decoder, "pixel_mean"_a = c.pixel_mean,
                  "pixel_std"_a = c.pixel_std);
}

py::dict sam2_config(const sam2::Sam2Config& c) {
  using namespace py::literals;
  const sam2::HieraConfig& trunk = c.image_encoder.trunk;
  const sam2::HeadsConfig& heads = c.heads;
  py::dict decoder = transformer_config(heads.mask_decoder.transformer);
  decoder["num_multimask_outputs"] = heads.mask_decoder.num_multimask_outputs;
  decoder["iou_head_depth"] = heads.mask_decoder.iou_head_depth;
  decoder["iou_head_hidden_dim"] = heads.mask_decoder.iou_head_hidden_dim;
  return py::dict(
      "image_size"_a = heads.base.image_size,
      "trunk"_a =
          py::dict("embed_dim"_a = trunk.embed_dim, "num_heads"_a = trunk.num_heads,
                   "stages"_a = trunk.stages, "window_spec"_a = trunk.window_spec,
                   "global_att_blocks"_a = trunk.global_att_blocks,
                   "window_pos_embed_bkg_spatial_size"_a = trunk.window_pos_embed_bkg_spatial_size),
      "neck"_a = py::dict("d_model"_a = c.image_encoder.neck.d_model,
                          "fpn_top_down_levels"_a = c.image_encoder.neck.fpn_top_down_levels),
      "mask_decoder"_a = decoder,
      "memory_attention"_a = py::dict("num_layers"_a = heads.memory_attention.num_layers,
                                      "dim_feedforward"_a = heads.memory_attention.dim_feedforward),
      "mem_dim"_a = heads.mem_dim(), "num_maskmem"_a = heads.memory_bank.num_maskmem,
      "pixel_mean"_a = c.pixel_mean, "pixel_std"_a = c.pixel_std);
}

}  // namespace sam_rlx
