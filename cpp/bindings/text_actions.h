#pragma once

#include "bindings/named_session.h"

namespace sam_rlx {

// What upstream's video model of texts asks of a session beside the calls of users: the history of
// actions under upstream's names, propagations that follow from it, and what each text has done.
void register_text_actions(py::module_& m, py::classh<NamedSession>& type);

}  // namespace sam_rlx
