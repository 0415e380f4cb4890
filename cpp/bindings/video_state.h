#pragma once

#include "bindings/numpy.h"
#include "predictors/video/tracked_objects.h"

namespace sam_rlx {

// All that a session knows of its objects, as a dict of arrays by name, ready for a file.
py::dict export_video_state(const TrackedObjects& session);
// The same back. Raises CheckpointError, and changes nothing, when it is no such dict, or does not
// fit the model.
void import_video_state(TrackedObjects& session, const py::dict& state);

}  // namespace sam_rlx
