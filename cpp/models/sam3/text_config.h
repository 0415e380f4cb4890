#pragma once

#include <cstdint>

#include "layers/fields.h"

namespace sam_rlx::sam3 {

// Upstream: sam3/model/text_encoder_ve.py, VETextEncoder, with a causal mask, a final norm and no
// pooling, as in the release. SAM3-LiteText has MobileCLIP's encoder instead.
struct TextEncoderConfig {
  std::int64_t d_model = 256;  // width of the result
  std::int64_t width = 1024;
  std::int64_t heads = 16;
  std::int64_t layers = 24;
  std::int64_t context_length = 32;
  std::int64_t vocab_size = 49408;
  double layer_norm_eps = 1e-5;
  bool mobile_clip = false;
  // Tokens that a convolution of MobileCLIP's first and last layer sees; 0: all layers attend.
  std::int64_t repmixer_size = 0;

  template <class V>
  void fields(V& v) {
    v("d_model", d_model, 1, kMaxConfigSize);
    v("width", width, 1, kMaxConfigSize);
    v("heads", heads, 1, kMaxConfigSize);
    v("layers", layers, 1, 256);
    v("context_length", context_length, 1, 1024);
    v("vocab_size", vocab_size, 1, kMaxConfigSize);
    v("mobile_clip", mobile_clip);
    v("repmixer_size", repmixer_size, 0, 15, kHasDefault);
  }

  static constexpr std::int64_t kMlpRatio = 4;
};

}  // namespace sam_rlx::sam3
