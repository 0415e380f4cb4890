#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sam_rlx::sam2 {

// ---------------------------------------------------------------- image encoder

// One block of the trunk. Upstream: sam2/modeling/backbones/hieradet.py, MultiScaleBlock.
struct MultiScaleBlockConfig {
  std::int64_t dim = 0;
  std::int64_t dim_out = 0;
  std::int64_t num_heads = 1;
  std::int64_t mlp_dim = 0;
  std::int64_t window_size = 0;  // 0: global
  bool q_pool = false;           // queries and shortcut are pooled 2x2
};

// Upstream: sam2/modeling/backbones/hieradet.py, Hiera. Width and number of heads double from
// stage to stage, as in every release.
struct HieraConfig {
  std::int64_t image_size = 1024;  // side of the input
  std::int64_t in_chans = 3;
  std::int64_t embed_dim = 96;
  std::int64_t num_heads = 1;
  std::int64_t q_pool = 3;  // of the stages after the first, so many begin with pooling
  double mlp_ratio = 4.0;
  std::vector<std::int64_t> stages{1, 2, 7, 2};
  std::vector<std::int64_t> window_spec{8, 4, 14, 7};
  std::vector<std::int64_t> global_att_blocks{5, 7, 9};
  std::array<std::int64_t, 2> window_pos_embed_bkg_spatial_size{7, 7};

  static constexpr std::int64_t kPatchStride = 4;

  std::int64_t num_stages() const { return static_cast<std::int64_t>(stages.size()); }
  std::int64_t depth() const;
  std::int64_t grid() const { return image_size / kPatchStride; }  // of the first stage
  std::int64_t stage_grid(std::int64_t stage) const;
  std::int64_t stage_width(std::int64_t stage) const { return embed_dim << stage; }
  // Sides that the pooling and the window table ask for: multiples of this.
  std::int64_t image_size_step() const;
  std::vector<MultiScaleBlockConfig> blocks() const;
};

// Upstream: sam2/modeling/backbones/image_encoder.py, FpnNeck, with 1x1 convolutions, nearest
// upsampling and sums, as in every release.
struct FpnNeckConfig {
  std::int64_t d_model = 256;
  std::vector<std::int64_t> backbone_channel_list{768, 384, 192, 96};  // coarsest first
  std::vector<std::int64_t> fpn_top_down_levels{2, 3};                 // 0 is the finest

  bool top_down(std::int64_t level) const;
};

// Upstream: sam2/modeling/backbones/image_encoder.py, ImageEncoder.
struct ImageEncoderConfig {
  HieraConfig trunk;
  FpnNeckConfig neck;
  std::int64_t scalp = 1;  // coarsest levels that are computed and left out

  std::int64_t num_levels() const { return trunk.num_stages() - scalp; }
};

// Released sizes: "hiera_t", "hiera_s", "hiera_b+", "hiera_l"; SAM 2.0 and 2.1 share them.
// Upstream: sam2/configs. Raises UnsupportedError for another name.
ImageEncoderConfig released_image_encoder(const std::string& variant);

// ---------------------------------------------------------------- the whole

struct Sam2Config {
  std::string variant;  // hiera_t, ..., or custom
  std::string version;  // "2.0" or "2.1"
  ImageEncoderConfig image_encoder;
  std::array<float, 3> pixel_mean{0.485F, 0.456F, 0.406F};  // of values 0 to 1
  std::array<float, 3> pixel_std{0.229F, 0.224F, 0.225F};
  float mask_threshold = 0.0F;

  // Another input side: position tables are made for it when the model is finalized.
  void set_image_size(std::int64_t size);
};

}  // namespace sam_rlx::sam2
