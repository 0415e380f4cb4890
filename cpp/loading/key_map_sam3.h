#pragma once

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Gives the tensors of transformers' Sam3VideoModel, or of its detector alone, Meta's names. What
// Meta has in one tensor, queries, keys and values of the detector, is joined.
void sam3_from_hugging_face(StateDict& state_dict);

}  // namespace sam_rlx
