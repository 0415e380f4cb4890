#pragma once

#include "bindings/numpy.h"
#include "predictors/video/video_predictor.h"

namespace sam_rlx {

// What upstream's video model of texts asks of a session beside the calls of users: the history of
// actions under upstream's names, propagations that follow from it, and results of the last text.
void register_text_actions(py::classh<VideoPredictor>& type);

}  // namespace sam_rlx
