#pragma once

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// The name in SAM 3's tracker of what SAM 2 names so.
std::string sam3_tracker_name(std::string_view sam2_name);

// The name in Meta's dialect of a tensor of Sam3VideoModel.
std::string sam3_meta_name(std::string_view name);

// Gives the tensors of transformers' Sam3VideoModel, or of its detector alone, Meta's names. What
// Meta has in one tensor, queries, keys and values of the detector, is joined.
void sam3_from_hugging_face(StateDict& state_dict);

}  // namespace sam_rlx
