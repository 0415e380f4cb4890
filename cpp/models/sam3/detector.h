#pragma once

#include <array>
#include <span>
#include <string>

#include "models/sam3/decoder.h"
#include "models/sam3/fusion_encoder.h"
#include "models/sam3/geometry_encoder.h"
#include "models/sam3/scoring.h"
#include "models/sam3/segmentation_head.h"

namespace sam_rlx::sam3 {

// What the prompts of an image share; all of it follows from the image alone. Tensors of the
// right size are used again for the next image.
struct DetectorFeatures {
  Tensor map;             // (g, g, C): the neck's coarsest level
  Tensor pos;             // (g, g, C): sines of the positions
  Tensor shared;          // (g * g, C): the part of the fusion encoder that prompts share
  Tensor geometry_token;  // (1, C): of a prompt without points and boxes, or zeros
  PixelLevels levels;

  // What is kept of an image to make them again, in this order; positions follow from the size.
  std::array<Tensor*, 5> parts();
  std::array<const Tensor*, 5> parts() const;
};

// Levels of the neck, channels last.
struct NeckLevels {
  ConstView level0;  // (4 g, 4 g, C)
  ConstView level1;  // (2 g, 2 g, C)
  ConstView level2;  // (g, g, C)
};

// A text, with points and boxes or without, and with examples of other images.
struct ConceptPrompt {
  ConstView text;                      // (L, C): tokens of the text encoder
  const bool* text_padding = nullptr;  // (L,): padding tokens, or null
  GeometricPrompt geometry = {};
  // (n, C) each: what the geometry encoder makes of boxes on another image. No token of a prompt
  // is tied to the image that is searched. Upstream's `_encode_prompt` has room for them behind
  // the geometry (`visual_prompt_embed`), and gives none.
  std::span<const ConstView> examples = {};
};

// What was found. Views live until the caller's scope closes.
struct Detections {
  View prompt;                  // (T, C): tokens of the text that count, geometry, examples
  View encoder_hidden_states;   // (g, g, C): the image with the prompt
  View queries;                 // (Q, C): hidden states
  View logits;                  // (Q,): see ops/scores.h for scores
  View boxes;                   // (Q, 4): cx, cy, w, h as fractions of the sides; not clipped
  float presence_logit = 0.0F;  // of the prompt: whether there is any instance
};

struct DetectorTransformer {
  TransformerEncoderFusion encoder;
  TransformerDecoder decoder;

  void visit(ParamVisitor& v);
};

// The detector behind its backbone. Prompts are run one after the other, since all that they share
// is in DetectorFeatures: memory does not grow with their number.
// Upstream: sam3/model/sam3_image.py, Sam3Image.forward_grounding, for one prompt.
struct DetectorHeads {
  DetectorConfig config;
  SequenceGeometryEncoder geometry_encoder;
  DetectorTransformer transformer;
  UniversalSegmentationHead segmentation_head;
  DotProductScoring dot_prod_scoring;

  explicit DetectorHeads(const DetectorConfig& sizes);
  // The parts stand at the top level of the detector's keys.
  void visit(ParamVisitor& v);

  void prepare(Context& ctx, const NeckLevels& levels, DetectorFeatures& out) const;
  // Shapes of the parts of features for a map of grid x grid, and features that are made of copies
  // of such parts.
  std::array<Shape, 5> part_shapes(std::int64_t grid) const;
  DetectorFeatures features_of(std::span<const ConstView> parts) const;
  // Tokens (boxes + 1, C) of boxes on an image, for the `examples` of a prompt on another one.
  // UnsupportedError without a geometry encoder, as `detect` raises for them.
  View encode_examples(Context& ctx, const DetectorFeatures& features,
                       const GeometricPrompt& geometry) const;
  // `reference_boxes` (layers, Q, 4) gets the boxes that each layer begins with, if it is given.
  Detections detect(Context& ctx, const DetectorFeatures& features, const ConceptPrompt& prompt,
                    View reference_boxes = {}) const;

  // Logits of masks, which are made for the queries asked for.
  //   masks (K, 4 g, 4 g)     of the K queries `kept`
  //   semantic (1, 4 g, 4 g)  of the text, or none
  // Without either, nothing is computed.
  struct MaskRequest {
    std::span<const std::int64_t> kept = {};
    View masks = {};
    View semantic = {};
  };
  void segment(Context& ctx, const DetectorFeatures& features, const Detections& found,
               const MaskRequest& request) const;

 private:
  View encode_prompt(Context& ctx, const DetectorFeatures& features,
                     const ConceptPrompt& prompt) const;
};

}  // namespace sam_rlx::sam3
