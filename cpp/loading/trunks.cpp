#include "loading/trunks.h"

#include <algorithm>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kMaxLayers = 8;

// One layer of TinyViT: convolutions in the first one, attention in the others.
void read_tiny_vit_layer(const StateDict& state_dict, const std::string& prefix,
                         trunks::TinyViTConfig& t) {
  const std::string layer = prefix + "layers." + std::to_string(t.num_layers()) + ".";
  const std::string block = layer + "blocks.0.";
  const bool first = t.num_layers() == 0;
  const TensorEntry& hidden = first ? required_tensor(state_dict, block + "conv1.c.weight", 4)
                                    : required_tensor(state_dict, block + "mlp.fc1.weight", 2);
  const std::int64_t width = size_of(hidden, 1);
  t.embed_dims.push_back(width);
  t.depths.push_back(
      count_of(state_dict, layer + "blocks.", first ? ".conv1.c.weight" : ".mlp.fc1.weight"));
  (first ? t.mbconv_expand_ratio : t.mlp_ratio) = size_of(hidden, 0) / width;
  if (first) return;
  const TensorEntry& biases = required_tensor(state_dict, block + "attn.attention_biases", 2);
  std::int64_t window = 1;
  while ((window + 1) * (window + 1) <= size_of(biases, 1)) ++window;
  t.num_heads.push_back(size_of(biases, 0));
  t.window_sizes.push_back(window);
  t.local_conv_size = size_of(required_tensor(state_dict, block + "local_conv.c.weight", 4), 3);
}

}  // namespace

// Upstream gives the first layer heads and windows too, which it does not use: as the layer behind
// it has them.
trunks::TinyViTConfig tiny_vit_of(const StateDict& state_dict, const std::string& prefix) {
  trunks::TinyViTConfig t;
  t.patch_kernel =
      size_of(required_tensor(state_dict, prefix + "patch_embed.seq.0.c.weight", 4), 3);
  const auto has_layer = [&] {
    const std::string begin = prefix + "layers." + std::to_string(t.num_layers());
    return state_dict.contains(begin + ".blocks.0.conv1.c.weight") ||
           state_dict.contains(begin + ".blocks.0.mlp.fc1.weight");
  };
  while (has_layer()) read_tiny_vit_layer(state_dict, prefix, t);
  if (!t.num_heads.empty()) {
    const std::int64_t head = std::max<std::int64_t>(t.embed_dims[1] / t.num_heads[0], 1);
    t.num_heads.insert(t.num_heads.begin(), std::max<std::int64_t>(t.embed_dims[0] / head, 1));
    t.window_sizes.insert(t.window_sizes.begin(), t.window_sizes[0]);
  }
  if (!t.fits()) {
    fail<CheckpointError>(
        state_dict.source + ": " + prefix + "layers",
        "layers of TinyViT, whose sizes divide each other",
        std::to_string(t.num_layers()) + " layers of widths " + dims_text(t.embed_dims));
  }
  return t;
}

// A stage ends with the block before the entry that halves the map.
trunks::RepVitConfig listed_rep_vit_of(const StateDict& state_dict, const std::string& prefix) {
  const auto entry = [&](std::int64_t i) { return prefix + "features." + std::to_string(i) + "."; };
  constexpr const char* kHidden = "channel_mixer.m.0.c.weight";
  trunks::RepVitConfig config;
  config.listed = true;
  config.embed_dim.clear();
  config.depth.clear();
  for (std::int64_t i = 1; state_dict.contains(entry(i) + kHidden); ++i) {
    const TensorEntry& hidden = required_tensor(state_dict, entry(i) + kHidden, 4);
    const bool halves = state_dict.contains(entry(i) + "token_mixer.2.c.weight");
    if (halves && !config.depth.empty()) --config.depth.back();
    if (halves || config.embed_dim.empty()) {
      config.embed_dim.push_back(size_of(hidden, 1));
      config.depth.push_back(0);
      config.mlp_ratio = std::max<std::int64_t>(size_of(hidden, 0) / size_of(hidden, 1), 1);
    }
    if (!halves) ++config.depth.back();
  }
  const bool fits =
      !config.embed_dim.empty() && config.num_stages() <= kMaxLayers &&
      config.embed_dim.front() % 2 == 0 &&
      std::all_of(config.depth.begin(), config.depth.end(), [](auto depth) { return depth > 0; });
  if (!fits) {
    fail<CheckpointError>(state_dict.source + ": " + prefix + "features",
                          "blocks of RepViT, some of which halve the map",
                          std::to_string(config.num_stages()) + " stages of widths " +
                              dims_text(config.embed_dim) + " and depths " +
                              dims_text(config.depth));
  }
  return config;
}

}  // namespace sam_rlx
