#include "loading/relatives.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/family.h"
#include "loading/quantizers.h"

namespace sam_rlx {
namespace {

using namespace std::string_view_literals;

struct Relative {
  std::string_view part;  // of a tensor's name
  std::string_view name;
  std::string_view help;
  std::string_view instead = {};  // the family whose released weights do the same
};

constexpr std::string_view kOtherEncoder = "its image encoder is another network";
constexpr std::string_view kOtherStudent =
    "its image encoder is another network: load efficientsam3_repvit.pt or "
    "efficientsam3_tinyvit.pt";
constexpr std::string_view kOtherNetwork = "its network is another one";
constexpr std::string_view kLora =
    "load the model that it was trained for with lora= and this file (on the command line --lora), "
    "which merges them; of a whole state dict save the adapter with peft: model.save_pretrained";
constexpr std::string_view kMerge =
    "merge it into its base model first (peft: model.merge_and_unload()) and save the merged "
    "state dict";
constexpr std::string_view kOwnCode =
    "they change what the model computes, so only the code that they were trained with runs them";

// The first that fits is taken. The names are those of the public repositories.
constexpr Relative kRelatives[] = {
    {".lora_", "a LoRA adapter", kLora},
    {"w_a_000", "a LoRA adapter (SAMed)", kLora},
    {".q_FacTs.", "a FacT adapter", kOwnCode},
    {".hada_w1", "a LoHa adapter", kMerge},
    {".lokr_w1", "a LoKr adapter", kMerge},
    {".oft_", "an OFT adapter", kMerge},
    {".boft_", "a BOFT adapter", kMerge},
    {".vera_lambda_", "a VeRA adapter", kMerge},
    {".ia3_l", "an IA3 adapter", kMerge},
    {"Adapter.", "layers of an adapter", kOwnCode},
    {".adapter", "layers of an adapter", kOwnCode},
    {"deconv_out.", "a decoder of micro-sam",
     "it makes no masks of prompts: load the model beside it"},
    {"image_encoder.features.", "RepViT-SAM", kOtherEncoder, "sam"},
    {"image_encoder.fuse_stage", "EdgeSAM (RepViT)", kOtherEncoder, "sam"},
    {"image_encoder.backbone.stages.", "EfficientViT-SAM", kOtherEncoder, "sam"},
    {"image_encoder.backbone.input_stem.", "EfficientViT-SAM", kOtherEncoder, "sam"},
    {"image_encoder.neck.input_ops.", "EfficientViT-SAM", kOtherEncoder, "sam"},
    {"mask_decoder.final_output_upscaling_layers.", "EfficientSAM", kOtherEncoder, "sam"},
    {"prompt_encoder.bbox_top_left_embeddings.", "EfficientSAM", kOtherEncoder, "sam"},
    {"trunk.model.backbone.model.input_stem.", "EfficientSAM3 (EfficientViT)", kOtherStudent},
    {"trunk.model.student_trunk.backbone.model.input_stem.", "EfficientSAM3 (EfficientViT)",
     kOtherStudent},
    {"image_encoder.neck.convs.0.conv_1x1.", "EfficientTAM", kOtherNetwork, "sam2"},
};

// The first convolution tells how all are laid out.
constexpr std::string_view kFirstConvolutions[] = {"patch_embed.proj.weight",
                                                   "patch_embed.projection.weight",
                                                   "patch_embeddings.projection.weight"};

void refuse_layout_of_mlx(const StateDict& state_dict) {
  for (const TensorEntry& entry : state_dict.tensors()) {
    const auto& dims = entry.dims;
    const bool turned = dims.size() == 4 && dims[1] == dims[2] && dims[2] != dims[3];
    const bool first =
        std::any_of(std::begin(kFirstConvolutions), std::end(kFirstConvolutions),
                    [&](std::string_view name) { return entry.name.ends_with(name); });
    if (!turned || !first) continue;
    fail<UnsupportedError>(
        state_dict.source, family_titles(),
        "weights in MLX's layout (" + printable(entry.name) + " is " + dims_text(dims) +
            "): load the PyTorch checkpoint that they were made from, or turn each convolution: "
            "numpy.ascontiguousarray(weight.transpose(0, 3, 1, 2)), transposed ones by "
            "(3, 0, 1, 2)");
  }
}

// What to do with a relative: the newest file of the smallest release does the same.
std::string help_with(const Relative& relative) {
  std::string help(relative.help);
  if (relative.instead.empty()) return help;
  const Family& family = family_named(relative.instead);
  return help + ": load " + family.releases().front().files.back().name +
         ", the smallest checkpoint of " + std::string(family.title) + ", or " +
         std::string(family.name) + "-nano";
}

}  // namespace

void refuse_relatives(const StateDict& state_dict) {
  refuse_quantized(state_dict);
  refuse_layout_of_mlx(state_dict);
  for (const Relative& relative : kRelatives) {
    for (const TensorEntry& entry : state_dict.tensors()) {
      if (entry.name.find(relative.part) == std::string::npos) continue;
      fail<UnsupportedError>(state_dict.source, family_titles(),
                             std::string(relative.name) + " (tensor " + printable(entry.name) +
                                 "): " + help_with(relative));
    }
  }
}

}  // namespace sam_rlx
