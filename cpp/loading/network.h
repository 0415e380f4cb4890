#pragma once

#include <variant>

#include "kernels/kernel_table.h"
#include "layers/layer.h"
#include "loading/family.h"
#include "models/sam/sam.h"
#include "models/sam2/sam2.h"
#include "models/sam3/sam3.h"

namespace sam_rlx {

// One for each config, in the order of NetworkConfig.
using Network = std::variant<sam::Sam, sam2::Sam2, sam3::Sam3>;

// The network of a config's sizes, without weights.
Network make_network(const NetworkConfig& config);

// Which layers of a family hold their weights in what format.
template <class Config>
WeightRule weight_rule(WeightFormat precision, const KernelTable& kernels) {
  WeightRule rule{.format = precision, .layers = Config::reduced_layers(precision)};
  if (precision != WeightFormat::kFloat32 && kernels.reduced_products != Products::kFloat32) {
    rule.bfloat16 = Config::bfloat16_layers();
  }
  return rule;
}

}  // namespace sam_rlx
