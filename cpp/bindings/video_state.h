#pragma once

#include <string>
#include <vector>

#include "bindings/named_session.h"

namespace sam_rlx {

// All that a session of prompts knows, but for its frames: NumPy arrays by name, and the objects
// under "obj_ids". Encodes the memory of new prompts before. UnsupportedError if there are texts.
py::dict export_video_state(NamedSession& names);
// Makes a session what `export_video_state` gave: with objects of these names, in its order. A
// state that is damaged raises CheckpointError and changes nothing.
void import_video_state(NamedSession& names, const py::dict& state, const py::list& obj_ids,
                        const std::vector<std::string>& labels, std::int64_t num_pushed);

}  // namespace sam_rlx
