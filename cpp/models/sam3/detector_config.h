#pragma once

#include <cstdint>

#include "layers/fields.h"

namespace sam_rlx::sam3 {

// Sizes of the detector behind the backbone; the defaults are the released ones.
// Upstream: sam3/model_builder.py, where no file sets them.
struct DetectorConfig {
  std::int64_t d_model = 256;
  std::int64_t num_heads = 8;
  std::int64_t dim_feedforward = 2048;
  std::int64_t geometry_layers = 3;
  std::int64_t encoder_layers = 6;
  std::int64_t decoder_layers = 6;
  std::int64_t num_queries = 200;
  std::int64_t roi_size = 7;
  bool geometry = true;                // points, boxes and examples; some files take texts alone
  bool encode_points = true;           // transformers leaves out what encodes points
  std::int64_t upsampling_stages = 3;  // of the pixel decoder; two have a level and are used
  // Logits of the queries carry the presence, as in the video model; else they stand apart.
  bool supervise_joint_box_scores = false;
  // Prompts without points and boxes have the token of the geometry, too.
  bool class_token = true;
  // How far from 0 the logit of the presence may be.
  double presence_limit = kNoLimit;

  template <class V>
  void fields(V& v) {
    v("d_model", d_model, 1, kMaxConfigSize);
    v("nheads", num_heads, 1, kMaxConfigSize);
    v("dim_feedforward", dim_feedforward, 1, kMaxConfigSize);
    v("geometry_layers", geometry_layers, 1, 256);
    v("encoder_layers", encoder_layers, 1, 256);
    v("decoder_layers", decoder_layers, 1, 256);
    v("num_queries", num_queries, 1, 1 << 16);
    v("roi_size", roi_size, 1, 64, kHasDefault);
    v("encode_points", encode_points, kNotInFolder);
    v("upsampling_stages", upsampling_stages, 2, 8);
    v("supervise_joint_box_scores", supervise_joint_box_scores);
  }
};

}  // namespace sam_rlx::sam3
