#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layers/linear.h"
#include "layers/norm.h"
#include "layers/rope.h"
#include "models/sam3/multiplex_config.h"

namespace sam_rlx::sam3 {

// What a frame left behind for a bucket, read where it lies. Encodings of positions have their
// channels in the order of MultiplexAttention::channel_order.
struct BucketMap {
  ConstView image;     // (N, C): the map of the frame
  ConstView features;  // (N, C): its memory
  ConstView tpos;      // (C,): encoding of the time
};
struct BucketMemory {
  std::span<const BucketMap> maps;
  ConstView pos = {};          // (N, C): encoding of the positions of a map
  ConstView pointers = {};     // (P, C): tokens of object pointers, or none
  ConstView pointer_pos = {};  // (P, C)
};

// Queries and keys of the cross-attention are sums of a part of the image and a part of the
// objects. Upstream: sam3/model/decoder.py, DecoupledTransformerDecoderLayerv2 with the switches of
// the release: norms first, encodings at keys alone.
struct MultiplexAttentionLayer {
  std::int64_t dim = 0, num_heads = 0;

  Linear self_attn_q_proj, self_attn_k_proj, self_attn_v_proj, self_attn_out_proj;
  Linear cross_attn_q_proj, cross_attn_k_proj, cross_attn_v_proj, cross_attn_out_proj;
  Linear image_cross_attn_q_proj, image_cross_attn_k_proj;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  AxialRope rope;  // of a head
  std::string path;

  MultiplexAttentionLayer() = default;
  MultiplexAttentionLayer(const MultiplexAttentionConfig& config, std::int64_t d_model);
  void visit(ParamVisitor& v);
  void fold();
  // x (N, C), in place. image (N, C): the map of the frame.
  void self_attention_(Context& ctx, View x) const;
  void cross_attention_(Context& ctx, View x, ConstView image, const BucketMemory& memory) const;
  void feed_forward_(Context& ctx, View x) const;

 private:
  void rotate_(Context& ctx, View rows) const;
  struct Projected {
    ConstView query, key, value;
  };
  void attend_add_(Context& ctx, const Projected& in, const Linear& out_proj, View x) const;
};

// Upstream: sam3/model/decoder.py, TransformerEncoderDecoupledCrossAttention, for one bucket.
struct MultiplexAttention {
  std::vector<MultiplexAttentionLayer> layers;
  LayerNorm norm;
  std::string path;

  MultiplexAttention() = default;
  MultiplexAttention(const MultiplexAttentionConfig& config, std::int64_t d_model);
  void visit(ParamVisitor& v);

  // Channel i of what is added to keys is channel order[i] of upstream's: those that turn together
  // are in halves.
  std::vector<std::int64_t> channel_order() const;
  // What does not depend on the bucket: map, its encoding (N, C) -> (N, C), the input and the
  // self-attention of the first layer. Buckets of a frame share it.
  View begin(Context& ctx, ConstView map, ConstView pos) const;
  // begin's result, the map, and the memory of a bucket -> (N, C).
  View finish(Context& ctx, ConstView shared, ConstView map, const BucketMemory& memory) const;
};

}  // namespace sam_rlx::sam3
