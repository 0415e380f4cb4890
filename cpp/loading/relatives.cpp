#include "loading/relatives.h"

#include <string>
#include <string_view>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/family.h"

namespace sam_rlx {
namespace {

using namespace std::string_view_literals;

struct Relative {
  std::string_view part;  // of a tensor's name
  std::string_view name;
  std::string_view help;
};

constexpr std::string_view kUseSam =
    "its image encoder is another network: load a SAM checkpoint "
    "(sam_vit_b_01ec64.pth is the smallest) or sam-nano";
constexpr std::string_view kUseSam2 =
    "its network is another one: load a SAM 2.1 checkpoint "
    "(sam2.1_hiera_tiny.pt is the smallest) or sam2-nano";
constexpr std::string_view kMerge =
    "merge it into its base model first (peft: model.merge_and_unload()) and save the merged "
    "state dict";
constexpr std::string_view kOwnCode =
    "they change what the model computes, so only the code that they were trained with runs them";
constexpr std::string_view kUnscaled =
    "write the weights as plain float16 or float32 with the program that packed them";

// The first that fits is taken. The names are those of the public repositories.
constexpr Relative kRelatives[] = {
    {".lora_", "a LoRA adapter", kMerge},
    {".linear_a_q.", "a LoRA adapter (SAMed)", kMerge},
    {"w_a_000", "a LoRA adapter (SAMed)", kMerge},
    {".hada_w1", "a LoHa adapter", kMerge},
    {".lokr_w1", "a LoKr adapter", kMerge},
    {".oft_", "an OFT adapter", kMerge},
    {".boft_", "a BOFT adapter", kMerge},
    {".vera_lambda_", "a VeRA adapter", kMerge},
    {".ia3_l", "an IA3 adapter", kMerge},
    {"Adapter.", "layers of an adapter", kOwnCode},
    {".adapter", "layers of an adapter", kOwnCode},
    {"scaled_fp8", "numbers with scales of their own (fp8 scaled)", kUnscaled},
    {".scale_weight", "numbers with scales of their own (fp8 scaled)", kUnscaled},
    {".weight_scale", "numbers with scales of their own", kUnscaled},
    {".SCB", "numbers with scales of their own (bitsandbytes)", kUnscaled},
    {".quant_state.", "numbers with scales of their own (bitsandbytes)", kUnscaled},
    {".qweight", "numbers with scales of their own (GPTQ, AWQ)", kUnscaled},
    {"mask_decoder.hf_token.", "HQ-SAM",
     "its mask decoder has one more token: load the SAM "
     "checkpoint that it was made from"},
    {"mask_decoder.hq_token.", "HQ-SAM",
     "its mask decoder has one more token: load the SAM "
     "checkpoint that it was made from"},
    {"image_encoder.patch_embed.seq.", "MobileSAM (TinyViT)", kUseSam},
    {"image_encoder.features.", "RepViT-SAM", kUseSam},
    {"image_encoder.fuse_stage", "EdgeSAM (RepViT)", kUseSam},
    {"image_encoder.backbone.stages.", "EfficientViT-SAM", kUseSam},
    {"image_encoder.backbone.input_stem.", "EfficientViT-SAM", kUseSam},
    {"image_encoder.neck.input_ops.", "EfficientViT-SAM", kUseSam},
    {"mask_decoder.final_output_upscaling_layers.", "EfficientSAM", kUseSam},
    {"prompt_encoder.bbox_top_left_embeddings.", "EfficientSAM", kUseSam},
    {"image_encoder.trunk.body.", "EdgeTAM", kUseSam2},
    {"spatial_perceiver.", "EdgeTAM", kUseSam2},
    {"image_encoder.neck.convs.0.conv_1x1.", "EfficientTAM", kUseSam2},
    {"language_backbone.encoder.transformer.0.", "SAM3-LiteText",
     "its text encoder is another network: load sam3.pt"},
    {"text_encoder.embeddings.position_embedding.position_embedding", "SAM3-LiteText",
     "its text encoder is another network: load facebook/sam3"},
    {"tracker.model.interactive_", "SAM 3.1", "load sam3.pt of SAM 3"},
    {"interactive_convs.", "SAM 3.1", "load sam3.pt of SAM 3"},
};

// Files of other runtimes, whose graphs hold the weights under other names or none, and of packers.
void refuse_other_runtimes(std::string_view text, const std::string& where) {
  struct Kind {
    std::size_t at;
    std::string_view begin, name, help;
  };
  constexpr std::string_view kOriginal = "load the PyTorch checkpoint that it was made from";
  constexpr std::string_view kGgml = "load the PyTorch checkpoint, or GGUF of `sam-rlx convert`";
  constexpr std::string_view kUnpack = "unpack it first";
  constexpr Kind kKinds[] = {
      {0, "lmgg"sv, "a ggml file of another program", kGgml},
      {0, "tjgg"sv, "a ggjt file of another program", kGgml},
      {0, "fmgg"sv, "a ggmf file of another program", kGgml},
      {4, "TFL3"sv, "a TensorFlow Lite model", kOriginal},
      {0, "\x89HDF"sv, "an HDF5 file", kOriginal},
      {0, "<?xml"sv, "an XML file (OpenVINO?)", kOriginal},
      {0, "ftrt"sv, "a TensorRT engine", kOriginal},
      {0, "\x1f\x8b"sv, "a gzip file", kUnpack},
      {0, "BZh"sv, "a bzip2 file", kUnpack},
      {0,
       "\xfd"
       "7zXZ"sv,
       "an xz file", kUnpack},
      {0, "\x28\xb5\x2f\xfd"sv, "a zstd file", kUnpack},
      {0, "7z\xbc\xaf"sv, "a 7-Zip file", kUnpack},
  };
  const auto refuse = [&](std::string_view name, std::string_view help) {
    fail<UnsupportedError>(where, "a safetensors, GGUF or PyTorch file",
                           std::string(name).append(": ").append(help));
  };
  for (const Kind& kind : kKinds) {
    if (text.size() > kind.at && text.substr(kind.at).starts_with(kind.begin)) {
      refuse(kind.name, kind.help);
    }
  }
  // Protocol buffers: field 1, the version of the format; then field 2, the producer, or field 7,
  // the graph.
  const bool onnx = text.size() > 3 && text[0] == '\x08' && text[1] > 0 && text[1] < 32 &&
                    (text[2] == '\x12' || text[2] == '\x3a');
  if (onnx) refuse("an ONNX model", kOriginal);
}

}  // namespace

void refuse_content(std::string_view text, const std::string& where) {
  std::string found = quoted(text.substr(0, 16)) + " at its beginning";
  if (text.empty()) found = "an empty file";
  if (text.size() > 262 && text.substr(257, 5) == "ustar") {
    throw UnsupportedError(where +
                           ": expected safetensors, GGUF, or PyTorch from 0.4 on, found a tar "
                           "file; save it again with a current PyTorch");
  }
  if (text.starts_with("version https://git-lfs")) found = "a Git LFS pointer, not the file itself";
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<html")) {
    found += ", a web page, not the file itself";
  }
  refuse_other_runtimes(text, where);
  fail<CheckpointError>(where, "a safetensors, GGUF or PyTorch file", found);
}

void refuse_relatives(const StateDict& state_dict) {
  for (const Relative& relative : kRelatives) {
    for (const TensorEntry& entry : state_dict.tensors()) {
      if (entry.name.find(relative.part) == std::string::npos) continue;
      fail<UnsupportedError>(state_dict.source, family_titles(),
                             std::string(relative.name) + " (tensor " + printable(entry.name) +
                                 "): " + std::string(relative.help));
    }
  }
}

}  // namespace sam_rlx
