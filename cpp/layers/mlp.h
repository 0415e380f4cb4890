#pragma once

#include <string>
#include <vector>

#include "layers/linear.h"

namespace sam_rlx {

// x (..., C) gets lin2(activation(lin1(input))) added, in place; some rows at a time, so that the
// hidden activations stay in the cache. input may be x.
void mlp_add_(Context& ctx, const PackedAffine& lin1, Activation activation,
              const PackedAffine& lin2, ConstView input, View x);
inline void mlp_add_(Context& ctx, const Linear& lin1, Activation activation, const Linear& lin2,
                     ConstView input, View x) {
  mlp_add_(ctx, lin1.affine(), activation, lin2.affine(), input, x);
}

// Two linear layers with an activation between them.
// Upstream: segment_anything/modeling/common.py, MLPBlock.
struct MLPBlock {
  Activation activation = Activation::kGelu;
  bool numbered = false;  // names layers.0 and layers.1, as sam2/modeling/sam2_utils.py, MLP
  Linear lin1, lin2;
  std::string path;

  MLPBlock() = default;
  MLPBlock(std::int64_t embedding_dim, std::int64_t mlp_dim, Activation act)
      : activation(act), lin1(embedding_dim, mlp_dim), lin2(mlp_dim, embedding_dim) {}

  void visit(ParamVisitor& v);
  // x (..., C) gets lin2(activation(lin1(input))) added, in place.
  void forward_add_(Context& ctx, ConstView input, View x) const;
};

// Linear layers with ReLU between them. Upstream: segment_anything/modeling/mask_decoder.py, MLP.
struct MLP {
  std::vector<Linear> layers;
  std::string path;

  MLP() = default;
  MLP(std::int64_t input_dim, std::int64_t hidden_dim, std::int64_t output_dim,
      std::int64_t num_layers);

  void visit(ParamVisitor& v);
  View forward(Context& ctx, ConstView x) const;
};

}  // namespace sam_rlx
