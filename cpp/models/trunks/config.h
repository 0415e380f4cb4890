#pragma once

#include <cstdint>
#include <vector>

#include "layers/fields.h"

// Sizes of trunks that several families have.

namespace sam_rlx::trunks {

// A trunk of convolutions, and then of attention in windows, whose map gets coarser.
// Upstream: mobile_sam/modeling/tiny_vit_sam.py, TinyViT.
struct TinyViTConfig {
  std::int64_t patch_kernel = 3;  // of the two first convolutions: 3 with stride 2, or 1
  std::vector<std::int64_t> embed_dims, depths, num_heads, window_sizes;  // one a layer
  std::int64_t mlp_ratio = 4;
  std::int64_t mbconv_expand_ratio = 4;
  std::int64_t local_conv_size = 3;
  // The map is halved behind each layer but the last; else MobileSAM's rule of widths holds, which
  // merge_stride has.
  bool halves_all = false;

  template <class V>
  void fields(V& v) {
    v("patch_kernel", patch_kernel, 1, 3);
    v("embed_dims", embed_dims, 1, kMaxConfigSize);
    v("depths", depths, 1, 1024);
    v("num_heads", num_heads, 1, kMaxConfigSize);
    v("window_sizes", window_sizes, 1, 4096);
    v("mlp_ratio", mlp_ratio, 1, 1024);
    v("mbconv_expand_ratio", mbconv_expand_ratio, 1, 1024);
    v("local_conv_size", local_conv_size, 1, 15);
  }

  std::int64_t num_layers() const { return static_cast<std::int64_t>(embed_dims.size()); }
  // By how much a side gets smaller in the first convolutions together, behind a layer, and in all.
  std::int64_t patch_stride() const { return patch_kernel == 3 ? 4 : 1; }
  std::int64_t merge_stride(std::int64_t layer) const;
  std::int64_t stride() const;
  // Whether the lists are as long as each other, and sizes divide each other.
  bool fits() const;

  bool operator==(const TinyViTConfig&) const = default;
};

// A trunk of convolutions. Upstream: timm/models/repvit.py, RepVit, as EdgeTAM has it, and
// THU-MIG/RepViT, model/repvit.py.
struct RepVitConfig {
  std::int64_t image_size = 1024;  // side of the input
  std::int64_t in_chans = 3;
  std::vector<std::int64_t> embed_dim{48, 96, 192, 384}, depth{2, 2, 14, 2};  // one a stage
  std::int64_t mlp_ratio = 2;
  bool fused = false;  // batch norms are a part of the convolutions already
  // As RepViT's repository has it: all blocks are one list, and one norm more stands behind the sum
  // of a token mixer.
  bool listed = false;

  template <class V>
  void fields(V& v) {
    v("image_size", image_size, 1, 4096, kHasDefault);
    v("in_chans", in_chans, 1, kMaxConfigSize, kHasDefault);
    v("embed_dim", embed_dim, 1, kMaxConfigSize);
    v("depth", depth, 1, 1024);
    v("mlp_ratio", mlp_ratio, 1, 1024);
    v("fused", fused);
  }

  static constexpr std::int64_t kStemStride = 4;
  // Channels of the gate in a block of so many: a quarter, to the nearest multiple of 8, but not 0.
  static std::int64_t squeezed(std::int64_t channels);

  std::int64_t num_stages() const { return static_cast<std::int64_t>(embed_dim.size()); }
  // Odd sides are halved upwards.
  std::int64_t stage_grid(std::int64_t stage) const {
    return (image_size - 1) / (kStemStride << stage) + 1;
  }
  std::int64_t stage_width(std::int64_t stage) const {
    return embed_dim[static_cast<std::size_t>(stage)];
  }
  std::int64_t image_size_step() const { return kStemStride << (num_stages() - 1); }

  bool operator==(const RepVitConfig&) const = default;
};

}  // namespace sam_rlx::trunks
