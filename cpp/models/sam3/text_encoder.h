#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/sam3/mobile_clip.h"
#include "models/sam3/text_config.h"

namespace sam_rlx::sam3 {

// Rows of the tokens of texts lie one text after the other. `begins` has the first row of each
// text, and the number of rows behind them.
using Begins = std::span<const std::int64_t>;

// Rows, and which of them no row attends to (R,), or null: none.
struct TextRows {
  Begins begins;
  const bool* hidden = nullptr;
};

// Causal self-attention of each text. Upstream: torch.nn.MultiheadAttention.
struct TextAttention {
  std::int64_t num_heads = 0;
  WeightFormat weight_format = WeightFormat::kFloat32;
  Linear in_proj;  // queries, keys and values; its keys are in_proj_weight and in_proj_bias
  Linear out_proj;
  std::string path;

  TextAttention() = default;
  TextAttention(std::int64_t width, std::int64_t heads)
      : num_heads(heads), in_proj(width, 3 * width), out_proj(width, width) {}
  void visit(ParamVisitor& v);
  void pack(const KernelTable& kernels) {
    in_proj.weight_format = weight_format;
    in_proj.pack(kernels);
  }
  // x (R, C) gets the attention of `input` (R, C) added.
  void forward_add_(Context& ctx, ConstView input, const TextRows& rows, View x) const;
};

struct TextMlp {
  Linear c_fc, c_proj;

  void visit(ParamVisitor& v);
};

// Upstream: sam3/model/text_encoder_ve.py, ResidualAttentionBlock.
struct ResidualAttentionBlock {
  TextAttention attn;
  LayerNorm ln_1, ln_2;
  TextMlp mlp;
  std::string path;

  ResidualAttentionBlock() = default;
  explicit ResidualAttentionBlock(const TextEncoderConfig& config);
  void visit(ParamVisitor& v);
  void forward_(Context& ctx, View x, const TextRows& rows) const;
};

struct Transformer {
  std::vector<ResidualAttentionBlock> resblocks;

  void visit(ParamVisitor& v) { v("resblocks", resblocks); }
};

// Texts as ids: <start_of_text>, the text, <end_of_text>, and 0 behind it. SAM 3's encoder computes
// nothing of what follows the last id that is not 0: no token sees those behind it.
struct TokenIds {
  const std::int64_t* data = nullptr;  // (count, length)
  std::int64_t count = 0, length = 0;

  const std::int64_t* text(std::int64_t i) const { return data + i * length; }
  std::int64_t valid_length(std::int64_t i) const;
};

// Upstream: sam3/model/text_encoder_ve.py, TextTransformer. Its text_projection makes a vector of
// each text that nothing reads: a key that checkpoints have and this has not.
struct TextTransformer {
  TextEncoderConfig config;
  Tensor positional_embedding;  // (context_length, width)
  Tensor token_embedding;       // (vocab_size, width)
  BlockRows token_blocks;       // instead of the table, if it stays in the blocks of its file
  Transformer transformer;
  LayerNorm ln_final;
  std::string path;

  TextTransformer() = default;
  explicit TextTransformer(const TextEncoderConfig& sizes);
  void visit(ParamVisitor& v);
  // -> (R, width)
  View forward(Context& ctx, const TokenIds& ids, const TextRows& rows) const;
};

// Views live until the caller's scope closes.
struct TextFeatures {
  View tokens;                    // (R, d_model)
  const bool* padding = nullptr;  // (R,): ids that are 0. In a text it is the byte "!", which
                                  // upstream masks like what follows a text
  Begins begins;

  ConstView text(std::int64_t i) const;  // (rows, d_model)
  const bool* text_padding(std::int64_t i) const;
};

// Upstream: sam3/model/text_encoder_ve.py, VETextEncoder; with MobileCLIP's encoder EfficientSAM3's
// sam3/model/text_encoder_student.py, TextStudentEncoder.
struct VETextEncoder {
  TextEncoderConfig config;
  TextTransformer encoder;                // one of these
  MobileClipTextTransformer mobile_clip;  //
  Linear resizer;                         // "projector" behind MobileCLIP's
  std::string path;

  VETextEncoder() = default;
  explicit VETextEncoder(const TextEncoderConfig& sizes);
  void visit(ParamVisitor& v);

  // Raises InvalidArgument when there is no text, one is too long or has no id but 0, or an id is
  // not in the vocabulary.
  TextFeatures forward(Context& ctx, const TokenIds& ids) const;

  // As transformers: all ids, also those behind a text. No row attends to those that `hidden`
  // (N, L) tells; null: to none of them.
  struct AllRows {
    View hidden_states;  // (N * L, width)
    View tokens;         // (N * L, d_model)
  };
  AllRows forward_all(Context& ctx, const TokenIds& ids, const bool* hidden) const;

 private:
  void check(const TokenIds& ids) const;
  // -> (R, width)
  View encoded(Context& ctx, const TokenIds& ids, Begins begins) const;
};

}  // namespace sam_rlx::sam3
