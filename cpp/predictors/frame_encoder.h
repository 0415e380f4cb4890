#pragma once

#include <cstddef>
#include <memory>

#include "core/context.h"
#include "core/image.h"
#include "loading/model.h"
#include "models/sam2/sam2.h"
#include "predictors/frame_cache.h"
#include "predictors/image_transform.h"

namespace sam_rlx {

// Where upstream's sessions of SAM 2 and of SAM 3 differ. Upstream:
// sam2/sam2_video_predictor.py, SAM2VideoPredictor, and sam3/model/sam3_tracking_predictor.py,
// Sam3TrackerPredictor.
struct SessionRules {
  // A click on a frame that was tracked before sees the memory, not only the mask there.
  bool clicks_see_memory = true;
  // Of more points on one frame, the first and the last half of so many are used. 0: all are.
  std::size_t max_points = 0;
  // Objects that were prompted before the same propagation run as one batch: a frame with a prompt
  // for one of them conditions all, and its memory is made of masks that do not overlap. A mask
  // given as prompt stays as it is until then, and upstream refuses later objects.
  bool batched = false;
  // Holes are filled in masks of the video's size, where small islands go too, and not in those
  // that are kept.
  bool fill_video_masks = false;
};

// What a video session needs of a model: the heads, and the way from pixels to what they read.
class FrameEncoder {
 public:
  virtual ~FrameEncoder() = default;

  virtual const sam2::Sam2Heads& heads() const = 0;
  virtual SessionRules rules() const = 0;
  // Encoding of the places of the coarsest map: (g, g, C).
  virtual ConstView vision_pos_enc() const = 0;
  // uint8 RGB -> input (side, side, 3).
  virtual void preprocess(Context& ctx, const ImageView& image, View input) const = 0;
  // Input (1, side, side, 3) -> features, and what the detector reads if `with_detector`, for which
  // the model is SAM 3. Tensors of the right size are used again.
  virtual void forward_image(Context& ctx, ConstView input, bool with_detector,
                             EncodedFrame& out) const = 0;

  std::int64_t side() const { return heads().config.base.image_size; }
};

// Raises UnsupportedError when the model cannot follow objects. `resize` is for SAM 3.
std::unique_ptr<FrameEncoder> make_frame_encoder(const std::shared_ptr<const Model>& model,
                                                 ByteSquareTransform::Resize resize);

}  // namespace sam_rlx
