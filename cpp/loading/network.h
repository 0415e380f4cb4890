#pragma once

#include <variant>

#include "loading/family.h"
#include "models/sam/sam.h"
#include "models/sam2/sam2.h"
#include "models/sam3/sam3.h"

namespace sam_rlx {

// One for each config, in the order of NetworkConfig.
using Network = std::variant<sam::Sam, sam2::Sam2, sam3::Sam3>;

// The network of a config's sizes, without weights.
Network make_network(const NetworkConfig& config);

}  // namespace sam_rlx
