#pragma once

#include <string>

#include "bindings/numpy.h"
#include "predictors/video/video_predictor.h"

namespace sam_rlx {

// Numbers of objects, masks (K, H, W) or logits, object scores.
py::tuple masks_on_frame(VideoPredictor& predictor, std::int64_t frame, const std::string& source,
                         bool return_logits);

void register_video_calls(py::classh<VideoPredictor>& type);

}  // namespace sam_rlx
