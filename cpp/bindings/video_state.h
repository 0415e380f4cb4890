#pragma once

#include "bindings/numpy.h"
#include "predictors/video_predictor.h"

namespace sam_rlx {

// All that a session knows of its objects, as a dict of arrays by name, ready for a file.
py::dict export_video_state(const VideoPredictor& predictor);
// The same back. Raises CheckpointError, and changes nothing, when it does not fit the model.
void import_video_state(VideoPredictor& predictor, const py::dict& state);

}  // namespace sam_rlx
