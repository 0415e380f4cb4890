#pragma once

#include <string>

#include "checkpoint/state_dict.h"
#include "loading/hugging_face_config.h"
#include "models/sam2/config.h"

namespace sam_rlx {

// What SAM 2 and the tracker of SAM 3 call differently in a checkpoint.
struct HeadsNames {
  std::string prefix;            // of all of them
  std::string memory_attention;  // behind the prefix, as what follows
  std::string memory_encoder;
  std::string first_linear;  // of the two-way transformer's MLPs
};

// Settings of the heads that no tensor tells, from a folder of transformers.
void read_heads_settings(const HuggingFaceConfig& folder, sam2::HeadsConfig& heads);
// Compares what the folder says with `heads`, which read_heads has made, and with what the image
// encoder asks for: its maps are for the sides in heads.base.
void check_heads_settings(HuggingFaceConfig& folder, const sam2::HeadsConfig& heads);
// Sides of the three maps that an image encoder gives to the heads, as its config has them.
Json feature_sizes(std::int64_t grid);
// Both for a folder to write. Raises UnsupportedError for what transformers' classes have fixed.
void write_heads_settings(HuggingFaceConfig& folder, const sam2::HeadsConfig& heads);

// Sizes of decoder and memory, all but the heads of the decoder's attention, from the tensors.
// Without any tensor of the memory there is none. Raises CheckpointError when one that tells a size
// is not there.
void read_heads(const StateDict& state_dict, const HeadsNames& names, sam2::HeadsConfig& heads);

// For files without a config: heads of the released width with other numbers of layers than every
// release has lack some. Raises CheckpointError.
void check_released_heads(const sam2::HeadsConfig& heads, const HeadsNames& names,
                          const std::string& source);

// Whether the sizes divide each other, and the decoder takes maps of so many channels.
bool heads_fit(const sam2::HeadsConfig& heads, std::int64_t channels);

}  // namespace sam_rlx
