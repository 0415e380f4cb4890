#pragma once

#include <string>
#include <vector>

#include "layers/conv.h"
#include "layers/norm.h"
#include "models/sam/config.h"

namespace sam_rlx::sam {

// One prompt set in the frame of the network's input. Coordinates already carry upstream's shift
// by half a pixel, in the precision that the caller of upstream would have used.
struct Prompt {
  const double* points = nullptr;  // (num_points, 2), x and y
  // (num_points,): 1 foreground, 0 background, -1 none; SAM 2: 2 and 3 corners of a box; others:
  // the position alone
  const std::int32_t* labels = nullptr;
  std::int64_t num_points = 0;
  bool has_points = false;      // a list that may be empty: then it is a padding point alone
  const double* box = nullptr;  // (4,): two corners
  ConstView mask = {};          // (S, S) logits, S = mask_input_size

  bool pads() const { return (num_points > 0 || has_points) && box == nullptr; }
};

// Random Fourier features of positions. Upstream: prompt_encoder.py, PositionEmbeddingRandom.
struct PositionEmbeddingRandom {
  std::int64_t num_pos_feats = 128;
  Tensor positional_encoding_gaussian_matrix;  // (2, F): a buffer that is a weight
  std::string path;

  void visit(ParamVisitor& v);
  // x, y in 0 to 1 -> out (2F): sines, then cosines.
  void encode(float x, float y, float* out) const;
  // Pixel centres of a map -> (1, H, W, 2F).
  Tensor dense(std::int64_t height, std::int64_t width) const;
};

// Upstream: torch.nn.Embedding of one row.
struct TokenEmbedding {
  std::int64_t rows = 1, embed_dim = 0;
  Tensor weight;  // (rows, C)
  void visit(ParamVisitor& v) { v("weight", weight, {rows, embed_dim}); }
};

// Logits of a mask to a dense embedding. Upstream: prompt_encoder.py, mask_downscaling.
struct MaskDownscaling {
  Conv2d conv1;     // 0
  LayerNorm norm1;  // 1
  Conv2d conv2;     // 3
  LayerNorm norm2;  // 4
  Conv2d conv3;     // 6
  std::string path;

  void visit(ParamVisitor& v);
  View forward(Context& ctx, ConstView mask) const;  // (1, S, S, 1) -> (1, S / 4, S / 4, C)
};

// Upstream: segment_anything/modeling/prompt_encoder.py, PromptEncoder.
struct PromptEncoder {
  PromptEncoderConfig config;

  PositionEmbeddingRandom pe_layer;
  std::vector<TokenEmbedding> point_embeddings;  // background, foreground, two box corners
  TokenEmbedding not_a_point_embed, no_mask_embed;
  MaskDownscaling mask_downscaling;
  Tensor dense_pe;  // (1, g, g, C): get_dense_pe()
  std::string path;

  PromptEncoder() = default;
  explicit PromptEncoder(const PromptEncoderConfig& sizes);
  void visit(ParamVisitor& v);
  void fold();

  // Tokens that `prompt` becomes: points, a padding point when there is no box, box corners.
  static std::int64_t num_tokens(const Prompt& prompt);
  // -> out (num_tokens, C), upstream's sparse_embeddings.
  void embed_tokens(const Prompt& prompt, View out) const;
  // Mask logits (S, S) -> (1, g, g, C), upstream's dense_embeddings.
  View embed_mask(Context& ctx, ConstView mask) const;

 private:
  void embed_point(double x, double y, const TokenEmbedding* kind, float* out) const;
};

}  // namespace sam_rlx::sam
