#include "bindings/sam3_config.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sam_rlx {
namespace {

py::dict vision_config(const sam3::VisionConfig& c) {
  using namespace py::literals;
  const sam3::ViTConfig& trunk = c.trunk;
  return py::dict("img_size"_a = trunk.img_size, "pretrain_img_size"_a = trunk.pretrain_img_size,
                  "patch_size"_a = trunk.patch_size, "embed_dim"_a = trunk.embed_dim,
                  "depth"_a = trunk.depth, "num_heads"_a = trunk.num_heads,
                  "mlp_ratio"_a = trunk.mlp_ratio, "window_size"_a = trunk.window_size,
                  "global_att_blocks"_a = trunk.global_att_blocks, "d_model"_a = c.neck.d_model,
                  "scale_factors"_a = c.neck.scale_factors, "scalp"_a = c.neck.scalp);
}

py::object tracker_config(const std::optional<sam2::HeadsConfig>& c) {
  using namespace py::literals;
  if (!c) return py::none();
  return py::dict("num_maskmem"_a = c->memory_bank.num_maskmem, "mem_dim"_a = c->mem_dim(),
                  "memory_layers"_a = c->memory_attention.num_layers,
                  "memory_feedforward"_a = c->memory_attention.dim_feedforward,
                  "num_multimask_outputs"_a = c->mask_decoder.num_multimask_outputs);
}

}  // namespace

py::dict sam3_config(const sam3::Sam3Config& c) {
  using namespace py::literals;
  const sam3::DetectorConfig& d = c.detector;
  return py::dict(
      "image_size"_a = c.vision.trunk.img_size, "vision"_a = vision_config(c.vision),
      "text"_a =
          py::dict("width"_a = c.text.width, "heads"_a = c.text.heads, "layers"_a = c.text.layers,
                   "context_length"_a = c.text.context_length, "vocab_size"_a = c.text.vocab_size),
      "detector"_a =
          py::dict("d_model"_a = d.d_model, "nheads"_a = d.num_heads,
                   "dim_feedforward"_a = d.dim_feedforward, "geometry_layers"_a = d.geometry_layers,
                   "encoder_layers"_a = d.encoder_layers, "decoder_layers"_a = d.decoder_layers,
                   "num_queries"_a = d.num_queries, "upsampling_stages"_a = d.upsampling_stages),
      "tracker"_a = tracker_config(c.tracker), "pixel_mean"_a = c.pixel_mean,
      "pixel_std"_a = c.pixel_std);
}

}  // namespace sam_rlx
