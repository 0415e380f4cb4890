#pragma once

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Gives the tensors of transformers' Sam3VideoModel, or of its detector alone, Meta's names. What
// Meta has in one tensor, queries, keys and values of the detector, is joined.
// The name in SAM 3's tracker of what SAM 2 names so.
std::string sam3_tracker_name(std::string_view sam2_name);

void sam3_from_hugging_face(StateDict& state_dict);

}  // namespace sam_rlx
