#pragma once

#include <string>
#include <vector>

#include "layers/conv.h"
#include "layers/embedding.h"
#include "layers/position_encoding.h"
#include "models/sam3/encoder_layer.h"

namespace sam_rlx::sam3 {

// Points and boxes of one prompt, as fractions of the image's sides; they may lie outside. Labels
// are 1 for what is meant and 0 for what is not.
struct GeometricPrompt {
  ConstView points = {};                       // (p, 2): x, y
  const std::int32_t* point_labels = nullptr;  // (p,)
  ConstView boxes = {};                        // (b, 4): cx, cy, w, h
  const std::int32_t* box_labels = nullptr;    // (b,)
  bool is_given = false;  // there were points or boxes, although none of them may count
  // False: the token of a box tells what it shows and its label, and not where it is and how large.
  bool box_positions = true;

  std::int64_t num_points() const { return points ? points.shape[0] : 0; }
  std::int64_t num_boxes() const { return boxes ? boxes.shape[0] : 0; }
};

// Turns points and boxes into tokens of the prompt. A class token is always there, so that a prompt
// of words alone has one geometry token too.
// Upstream: sam3/model/geometry_encoders.py, SequenceGeometryEncoder.
struct SequenceGeometryEncoder {
  DetectorConfig config;
  PositionEmbeddingSine pos_enc;
  Tensor frequencies;  // of pos_enc

  Embedding label_embed, cls_embed;
  Linear points_direct_project, points_pool_project, points_pos_enc_project;
  Linear boxes_direct_project, boxes_pos_enc_project;
  Conv2d boxes_pool_project;
  Linear final_proj;
  LayerNorm norm, img_pre_norm, encode_norm;
  std::vector<TransformerEncoderLayer> encode;
  std::string path;

  SequenceGeometryEncoder() = default;
  explicit SequenceGeometryEncoder(const DetectorConfig& sizes);
  void visit(ParamVisitor& v);
  void fold();

  // map, pos (H, W, C) -> (points + boxes + 1, C): points, boxes, the class token. Without points
  // and boxes the result depends on the image alone.
  View forward(Context& ctx, const GeometricPrompt& prompt, ConstView map, ConstView pos) const;

 private:
  // Written to out (n, C); `pooled` (H, W, C) is the normed map.
  void encode_points(Context& ctx, const GeometricPrompt& prompt, ConstView pooled, View out) const;
  void encode_boxes(Context& ctx, const GeometricPrompt& prompt, ConstView pooled, View out) const;
  void embed_labels(Context& ctx, const std::int32_t* labels, View out) const;
};

}  // namespace sam_rlx::sam3
