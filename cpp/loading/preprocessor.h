#pragma once

#include <array>
#include <cstdint>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// How pixels become numbers, and for which side.
struct Preprocessing {
  std::array<float, 3>& mean;
  std::array<float, 3>& std;
  double scale = 1.0;     // what a pixel of 255 is for mean and std: 1 or 255
  std::int64_t side = 0;  // of the network's images
};

// Sets mean and deviation from the preprocessor_config.json or processor_config.json that a folder
// of transformers has beside the weights. Raises CheckpointError for a side of images other than
// the network's, and for values of another type.
void read_preprocessor(const StateDict& state_dict, Preprocessing found);

}  // namespace sam_rlx
