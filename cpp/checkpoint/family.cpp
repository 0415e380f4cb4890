#include "checkpoint/family.h"

#include <algorithm>
#include <string_view>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

struct Relative {
  std::string_view part;  // of a tensor's name
  std::string_view name;
};

constexpr Relative kRelatives[] = {
    {"mask_decoder.hf_token.", "HQ-SAM"},
    {"mask_decoder.hq_token.", "HQ-SAM"},
    {"image_encoder.patch_embed.seq.", "MobileSAM (TinyViT)"},
    {"tracker.model.interactive_", "SAM 3.1"},
    {"interactive_convs.", "SAM 3.1"},
};

struct Sign {
  std::string_view begin;  // of a tensor's name
  std::string_view family;
  Dialect dialect;
};

constexpr Sign kSigns[] = {
    {"image_encoder.blocks.0.attn.rel_pos_h", "sam", Dialect::kMeta},
    {"vision_encoder.layers.0.attn.rel_pos_h", "sam", Dialect::kHuggingFace},
    {"image_encoder.trunk.pos_embed_window", "sam2", Dialect::kMeta},
    {"vision_encoder.backbone.pos_embed_window", "sam2", Dialect::kHuggingFace},
    {"detector.", "sam3", Dialect::kMeta},
    {"backbone.vision_backbone.trunk.pos_embed", "sam3", Dialect::kMeta},
    {"detector_model.", "sam3", Dialect::kHuggingFace},
    {"vision_encoder.backbone.embeddings.position_embeddings", "sam3", Dialect::kHuggingFace},
};

std::string some_names(const StateDict& state_dict) {
  constexpr std::size_t kMost = 3;
  const auto& tensors = state_dict.tensors();
  if (tensors.empty()) return "no tensors";
  std::string text = std::to_string(tensors.size()) + " tensors:";
  for (std::size_t i = 0; i < std::min(kMost, tensors.size()); ++i) {
    text += (i == 0 ? " " : ", ") + printable(tensors[i].name);
  }
  return tensors.size() > kMost ? text + ", ..." : text;
}

}  // namespace

Family detect_family(const StateDict& state_dict) {
  const auto& tensors = state_dict.tensors();
  for (const Relative& relative : kRelatives) {
    const bool found = std::any_of(tensors.begin(), tensors.end(), [&](const TensorEntry& entry) {
      return entry.name.find(relative.part) != std::string::npos;
    });
    if (found) {
      fail<UnsupportedError>(state_dict.source, "SAM, SAM 2 or SAM 3", std::string(relative.name));
    }
  }
  for (const Sign& sign : kSigns) {
    const bool found = std::any_of(tensors.begin(), tensors.end(), [&](const TensorEntry& entry) {
      return entry.name.starts_with(sign.begin);
    });
    if (found) return {std::string(sign.family), sign.dialect};
  }
  fail<CheckpointError>(state_dict.source, "the tensors of SAM, SAM 2 or SAM 3",
                        some_names(state_dict));
}

}  // namespace sam_rlx
