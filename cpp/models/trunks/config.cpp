#include "models/trunks/config.h"

#include <algorithm>

namespace sam_rlx::trunks {

// The widths behind which MobileSAM keeps the map: the last ones of TinyViT 5M, 11M and 21M.
std::int64_t TinyViTConfig::merge_stride(std::int64_t layer) const {
  if (layer + 1 == num_layers()) return 1;
  if (halves_all) return 2;
  const std::int64_t width = embed_dims[static_cast<std::size_t>(layer + 1)];
  return width == 320 || width == 448 || width == 576 ? 1 : 2;
}

std::int64_t TinyViTConfig::stride() const {
  std::int64_t stride = patch_stride();
  for (std::int64_t i = 0; i < num_layers(); ++i) stride *= merge_stride(i);
  return stride;
}

bool TinyViTConfig::fits() const {
  const std::size_t layers = embed_dims.size();
  if (layers < 1 || layers > 8 || depths.size() != layers || num_heads.size() != layers ||
      window_sizes.size() != layers || patch_kernel % 2 == 0 || local_conv_size % 2 == 0 ||
      embed_dims.front() % 2 != 0) {
    return false;
  }
  for (std::size_t i = 0; i < layers; ++i) {
    if (embed_dims[i] % num_heads[i] != 0) return false;
  }
  return true;
}

std::int64_t RepVitConfig::squeezed(std::int64_t channels) {
  return std::max<std::int64_t>((channels + 16) / 32 * 8, 8);
}

}  // namespace sam_rlx::trunks
