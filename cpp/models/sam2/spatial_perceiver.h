#pragma once

#include <string>
#include <vector>

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/sam2/config.h"

// Upstream of all: sam2/modeling/perceiver.py of EdgeTAM. One head; latents and inputs are (N, C).

namespace sam_rlx::sam2 {

// Latents attend to inputs. Groups of latents may each have inputs of their own: both are then
// parts, as many as there are groups, of equal length. Upstream: PerceiverAttention, and Attention,
// whose inputs are the latents themselves.
struct PerceiverAttention {
  bool to_itself = false;

  LayerNorm norm_x, norm_latents;  // to itself: one, `norm`
  Tensor to_kv;                    // (2 * C, C); in two once folded
  Linear to_q, to_k, to_v, to_out;
  std::string path;

  PerceiverAttention() = default;
  PerceiverAttention(std::int64_t dim, bool is_to_itself);
  void visit(ParamVisitor& v);
  void fold();
  void pack(const KernelTable& kernels);
  // Adds itself. pos: of the inputs, is added to keys and values; or none.
  void forward_add_(Context& ctx, View latents, ConstView x, ConstView pos,
                    std::int64_t groups) const;
};

// Upstream: FeedForward, a Sequential.
struct PerceiverFeedForward {
  LayerNorm norm;   // 0
  Linear fc1, fc2;  // 1, 3
  std::string path;

  PerceiverFeedForward() = default;
  PerceiverFeedForward(std::int64_t dim, std::int64_t mult);
  void visit(ParamVisitor& v);
  void forward_add_(Context& ctx, View latents) const;
};

// Upstream: PerceiverEncoderLayer with use_self_attn.
struct PerceiverLayer {
  PerceiverAttention attn;
  PerceiverFeedForward ff;
  PerceiverAttention self_attn;
  PerceiverFeedForward self_ff;
  std::string path;

  explicit PerceiverLayer(const SpatialPerceiverConfig& config);
  void visit(ParamVisitor& v);
  void forward_(Context& ctx, View latents, ConstView x, ConstView pos, std::int64_t groups) const;
};

// Makes the map of a memory shorter: some latents read all of it, and each of the others a window
// of its own. The second kind has positions, on a coarser map. Upstream: PerceiverResampler.
struct SpatialPerceiver {
  SpatialPerceiverConfig config;
  std::int64_t grid = 64;  // side of the map

  Tensor latents, latents_2d;  // (num_latents, C), (num_latents_2d, C)
  std::vector<PerceiverLayer> layers;
  LayerNorm norm;
  Tensor map_pos;  // (grid * grid, C)
  std::string path;

  SpatialPerceiver(const SpatialPerceiverConfig& sizes, std::int64_t side);
  void visit(ParamVisitor& v);
  void fold();
  // x (grid, grid, C) -> out (num_latents + num_latents_2d, C)
  void forward(Context& ctx, ConstView x, View out) const;
  // Encoding of the positions of the result: zeros, then those of the coarser map.
  Tensor positions() const;
};

}  // namespace sam_rlx::sam2
