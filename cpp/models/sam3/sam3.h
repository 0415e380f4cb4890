#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/sam3/detector.h"
#include "models/sam3/neck.h"
#include "models/sam3/text_encoder.h"
#include "models/sam3/tracker.h"

namespace sam_rlx::sam3 {

// Upstream: sam3/model_builder.py.
struct Sam3Config {
  std::string variant;  // sam3, the metadata's, or custom
  VisionConfig vision;  // its second neck is there if the tracker is
  // Text prompts and example boxes; files for clicks and videos alone have none.
  bool has_detector = true;
  TextEncoderConfig text;
  DetectorConfig detector;
  std::optional<sam2::HeadsConfig> tracker;  // clicks and videos; files of the detector have none
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
    v("pixel_mean", pixel_mean, -1e6, 1e6, kHasDefault);
    v("pixel_std", pixel_std, 1e-6, 1e6, kHasDefault);
  }

  static constexpr std::int64_t kMaxImageSize = 4096;

  // Another input side: position tables and rotations are made for it when the model is loaded.
  void set_image_size(std::int64_t size);

  // Patterns of names that checkpoints have and the network has not.
  std::vector<std::string_view> ignored_keys() const;

  // Layers that another precision than float32 holds in its format.
  static LayerSet reduced_layers();
  // Layers, as patterns of lies_below, whose matrices stay in the blocks of a GGUF file.
  static std::span<const std::string_view> packed_layers();
};

// Upstream: sam3/model/vl_combiner.py, SAM3VLBackbone.
struct VLBackbone {
  Sam3DualViTDetNeck vision_backbone;
  std::optional<VETextEncoder> language_backbone;

  void visit(ParamVisitor& v);
};

// Upstream: sam3/model/sam3_image.py, Sam3Image.
struct Detector {
  VLBackbone backbone;
  std::optional<DetectorHeads> heads;

  // The heads' parts stand beside the backbone.
  void visit(ParamVisitor& v);
};

// All of SAM 3. The names are those of Meta's file sam3.pt, which holds the video model; the image
// model has the tracker under another name.
struct Sam3 {
  Sam3Config config;
  Detector detector;  // of its parts, the vision backbone is always there
  std::optional<Tracker> tracker;

  explicit Sam3(const Sam3Config& sizes);
  void visit(ParamVisitor& v);
  // conv_s0 and conv_s1 of the tracker become a part of the second neck.
  void fold();

  const Sam3DualViTDetNeck& vision() const { return detector.backbone.vision_backbone; }

  // What is made of an image; null for what is not needed.
  struct ImageOutputs {
    DetectorFeatures* detector = nullptr;    // only if there is a detector
    sam2::ImageFeatures* tracker = nullptr;  // only if there is a tracker
  };
  // Normalized image (1, S, S, 3) -> out: the trunk once, and the necks that are needed. Tensors
  // of the right size are used again.
  void forward_image(Context& ctx, ConstView image, const ImageOutputs& out) const;

  // Texts -> their tokens for ConceptPrompt, in the scope of the caller.
  TextFeatures forward_text(Context& ctx, const TokenIds& ids) const {
    return detector.backbone.language_backbone->forward(ctx, ids);
  }
};

}  // namespace sam_rlx::sam3
