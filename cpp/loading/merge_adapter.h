#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Adds to the weights of a checkpoint what an adapter learned, as float32: an adapter among its own
// tensors, and one in another file or folder. Each number of a product is a sum of fused
// multiply-adds in the order of the ranks, which is then multiplied by the scale and added to the
// weight: PEFT's arithmetic, the same on every machine. Tensors that the adapter does not name stay
// as they are; those of another dialect than the adapter's get Meta's names.
//
// UnsupportedError and CheckpointError are those of read_adapter. CheckpointError too for layers
// that the model has not, for sizes that do not fit and for NaN or infinity.
void merge_adapters(StateDict& base, const std::optional<std::string>& lora);

// Names of the tensors that an adapter changed.
std::vector<std::string> merged_names(const StateDict& state_dict);

}  // namespace sam_rlx
