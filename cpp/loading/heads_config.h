#pragma once

#include <string>

#include "checkpoint/state_dict.h"
#include "models/sam2/config.h"

namespace sam_rlx {

// What SAM 2 and the tracker of SAM 3 call differently in a checkpoint.
struct HeadsNames {
  std::string prefix;            // of all of them
  std::string memory_attention;  // behind the prefix, as what follows
  std::string memory_encoder;
  std::string first_linear;  // of the two-way transformer's MLPs
};

// Sizes of decoder and memory, all but the heads of the decoder's attention, from the tensors.
// Raises CheckpointError when one that tells a size is not there.
void read_heads(const StateDict& state_dict, const HeadsNames& names, sam2::HeadsConfig& heads);

// For files without a config: heads of the released width with other numbers of layers than every
// release has lack some. Raises CheckpointError.
void check_released_heads(const sam2::HeadsConfig& heads, const HeadsNames& names,
                          const std::string& source);

// Whether the sizes divide each other, and the decoder takes maps of so many channels.
bool heads_fit(const sam2::HeadsConfig& heads, std::int64_t channels);

}  // namespace sam_rlx
