#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/fields.h"
#include "layers/layer.h"
#include "layers/release.h"
#include "layers/rules.h"
#include "models/sam2/config.h"
#include "models/sam3/detector_config.h"
#include "models/sam3/multiplex_config.h"
#include "models/sam3/text_config.h"
#include "models/trunks/config.h"

namespace sam_rlx::sam3 {

// ---------------------------------------------------------------- image encoder

// Another network instead of ViT, whose maps have other sides and widths: a head brings them
// to ViT's. One of the two is there. Tensors tell all of it, and no file has to. Upstream:
// EfficientSAM3's sam3/model_builder.py, ImageStudentEncoder and what it is given.
struct StudentConfig {
  std::optional<trunks::RepVitConfig> rep_vit = {};
  std::optional<trunks::TinyViTConfig> tiny_vit = {};

  template <class V>
  void fields(V& v) {
    v.told("network", std::string(rep_vit ? "RepViT" : "TinyViT"));
    v.told("embed_dims", rep_vit ? rep_vit->embed_dim : tiny_vit->embed_dims);
    v.told("depths", rep_vit ? rep_vit->depth : tiny_vit->depths);
  }

  // Of the map before the head.
  std::int64_t channels() const {
    return rep_vit ? rep_vit->embed_dim.back() : tiny_vit->embed_dims.back();
  }
};

// Upstream: sam3/model/vitdet.py, ViT, with the switches of the release: a tiled position table,
// rotary encoding in all blocks, a norm before them. transformers leaves out the class token's row.
struct ViTConfig {
  std::int64_t img_size = 1008;  // side of the input
  std::int64_t pretrain_img_size = 336;
  bool pretrain_use_cls_token = true;  // the position table begins with a row that has no use
  std::int64_t patch_size = 14;
  std::int64_t in_chans = 3;
  std::int64_t embed_dim = 1024;
  std::int64_t depth = 32;
  std::int64_t num_heads = 16;
  double mlp_ratio = 4.625;
  std::int64_t window_size = 24;
  std::vector<std::int64_t> global_att_blocks{7, 15, 23, 31};
  // The result is that of the last block, as in transformers, else that of the last global one, of
  // which there is one at least: Meta's code drops what later ones make of it.
  bool output_last_block = false;
  double layer_norm_eps = 1e-5;
  // Instead, of EfficientSAM3: its map is of the sides and the width that ViT's would be.
  std::optional<StudentConfig> student = {};

  template <class V>
  void fields(V& v) {
    v("img_size", img_size, 1, 4096);
    if (student) {
      v("patch_size", patch_size, 1, kMaxConfigSize);
      v("in_chans", in_chans, 1, kMaxConfigSize, kHasDefault);
      v("embed_dim", embed_dim, 1, kMaxConfigSize);
      v("student", *student);
      return;
    }
    v("pretrain_img_size", pretrain_img_size, 1, kMaxConfigSize);
    v("pretrain_use_cls_token", pretrain_use_cls_token, kNotInFolder);
    v("patch_size", patch_size, 1, kMaxConfigSize);
    v("in_chans", in_chans, 1, kMaxConfigSize, kHasDefault);
    v("embed_dim", embed_dim, 1, kMaxConfigSize);
    v("depth", depth, 1, 256);
    v("num_heads", num_heads, 1, kMaxConfigSize);
    v("mlp_ratio", mlp_ratio, 0, 64, kNotInFolder);
    v("window_size", window_size, 1, 512);
    v("global_att_blocks", global_att_blocks, 0, kMaxConfigSize);
    v("output_last_block", output_last_block, kNotInFolder);
    v.told("mlp_dim", [&] { return mlp_dim(); });
    v.told("layer_norm_eps", layer_norm_eps);
    v.told("rope_theta", kRopeTheta);
    v.told("norm_pre", true);
  }

  static constexpr double kRopeTheta = 10000.0;

  std::int64_t grid() const { return img_size / patch_size; }
  std::int64_t table_rows() const {
    return table_grid() * table_grid() + (pretrain_use_cls_token ? 1 : 0);
  }
  std::int64_t table_grid() const { return pretrain_img_size / patch_size; }
  std::int64_t head_dim() const { return embed_dim / num_heads; }
  std::int64_t mlp_dim() const {
    return static_cast<std::int64_t>(static_cast<double>(embed_dim) * mlp_ratio);
  }
  bool is_global(std::int64_t block) const;
  std::int64_t last_block() const {
    return output_last_block ? depth - 1 : global_att_blocks.back();
  }
};

// Upstream: sam3/model/necks.py, Sam3DualViTDetNeck and, of SAM 3.1, Sam3TriViTDetNeck, and
// sam3/model/vl_combiner.py, SAM3VLBackbone.
struct NeckConfig {
  std::int64_t d_model = 256;
  std::vector<double> scale_factors{4.0, 2.0, 1.0, 0.5};  // any of these, of the trunk's map
  std::int64_t scalp = 1;                                 // so many levels at the end are left out
  bool add_sam2_neck = false;  // a second set of maps, for clicks and videos
  // SAM 3.1: the second set is for clicks alone, and has another name; a third one is for videos.
  bool add_propagation_neck = false;
  bool keep_all_levels = false;  // those that are left out too, for those who ask for them

  template <class V>
  void fields(V& v) {
    v("d_model", d_model, 1, kMaxConfigSize);
    v("scale_factors", scale_factors, 0.5, 4);
    v("scalp", scalp, 0, 7);
    v("add_sam2_neck", add_sam2_neck);
  }

  std::int64_t num_levels() const {
    return static_cast<std::int64_t>(scale_factors.size()) - scalp;
  }
};

struct VisionConfig {
  ViTConfig trunk;
  NeckConfig neck;

  template <class V>
  void fields(V& v) {
    v("trunk", trunk);
    v("neck", neck);
  }
};

// ---------------------------------------------------------------- all of it

// Upstream: sam3/model_builder.py.
struct Sam3Config {
  std::string variant;  // sam3, the metadata's, or custom
  VisionConfig vision;  // its second neck is there if the tracker is
  // Text prompts and example boxes; files for clicks and videos alone have none.
  bool has_detector = true;
  TextEncoderConfig text;
  DetectorConfig detector;
  // Clicks and videos; files of the detector have none.
  std::optional<sam2::HeadsConfig> tracker;
  // SAM 3.1: follows objects of a video. `tracker` is there too, for clicks, and without memory.
  std::optional<MultiplexConfig> multiplex;
  std::array<float, 3> pixel_mean{0.5F, 0.5F, 0.5F};  // of values 0 to 1
  std::array<float, 3> pixel_std{0.5F, 0.5F, 0.5F};
  float mask_threshold = 0.0F;

  template <class V>
  void fields(V& v) {
    v.told("image_size", vision.trunk.img_size);
    v("vision", vision);
    if (has_detector) {
      v("text", text);
      v("detector", detector);
    } else {
      const std::nullopt_t& absent = std::nullopt;
      v.told("text", absent);
      v.told("detector", absent);
    }
    v("tracker", tracker);
    if (multiplex) v("multiplex", *multiplex);  // files of SAM 3 have no such key
    v("pixel_mean", pixel_mean, -1e6, 1e6, kHasDefault);
    v("pixel_std", pixel_std, 1e-6, 1e6, kHasDefault);
  }

  static constexpr std::int64_t kMaxImageSize = 4096;

  // Makes it SAM 3.1, whose neck leaves no level out.
  void use_3_1();
  // What SAM 3.1 has instead of SAM 3's tracker: `tracker` is to be set with it.
  void use_multiplex();
  std::string_view version() const;  // "3.0" or "3.1"

  // Another input side: position tables and rotations are made for it when the model is loaded.
  void set_image_size(std::int64_t size);
  void set_rules(const Rules& rules);

  // Patterns of names that checkpoints have and the network has not.
  std::vector<std::string_view> ignored_keys() const;

  // Layers that another precision than float32 holds in its format.
  static LayerSet reduced_layers(WeightFormat format);
  // Layers that are bfloat16 in every reduced precision, unless they are reduced_layers, on
  // processors whose products of 16 bits are faster than those of float32. On others they gain
  // nothing.
  static LayerSet bfloat16_layers();
  // Layers, as patterns of lies_below, whose matrices stay in the blocks of a GGUF file.
  static std::span<const std::string_view> packed_layers();
};

// Its sizes are the defaults. Upstream: sam3/model_builder.py.
std::span<const Release> releases();

}  // namespace sam_rlx::sam3
