#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/layer.h"
#include "ops/linear.h"

namespace sam_rlx {

// What is left of a linear map once it is packed.
struct PackedAffine {
  const PackedMatrix& packed;
  const float* bias;
};

// y = x W^T + b over the last axis. Upstream: torch.nn.Linear.
struct Linear {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool has_bias = true;
  WeightFormat weight_format = WeightFormat::kFloat32;

  Tensor weight;     // (out, in), until it is packed
  BlockRows blocks;  // instead of the weight, if it stays in the blocks of its file
  Tensor bias;       // (out,)
  PackedMatrix packed;
  std::string path;

  Linear() = default;
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true)
      : in_features(in), out_features(out), has_bias(with_bias) {}

  void visit(ParamVisitor& v);
  // In fold(): row i becomes what row order[i] was, in weight and bias.
  void reorder_rows(const std::vector<std::int64_t>& order);
  // In fold(): puts `next` behind this layer, as one. `next` gives its weights up.
  void absorb(Linear& next);
  void pack(const KernelTable& kernels);
  PackedAffine affine() const { return {packed, bias.data()}; }

  // x (..., in) -> (..., out), a new view.
  View forward(Context& ctx, ConstView x, Activation activation = Activation::kNone) const;
  // x -> x W^T + b + residual, written to out; residual may be out.
  void forward_add(Context& ctx, ConstView x, ConstView residual, View out) const;
};

}  // namespace sam_rlx
