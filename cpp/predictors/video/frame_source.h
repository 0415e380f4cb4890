#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/image.h"
#include "predictors/image/image_transform.h"

namespace sam_rlx {

// Gets a frame, with the size that it had, if it was resized.
using UseFrame = std::function<void(const ImageView& image, std::optional<Size> orig_hw)>;

// The frames of a video: a session asks for them by number.
struct FrameSource {
  virtual ~FrameSource() = default;
  // Number of frames; none: known at the end.
  virtual std::optional<std::int64_t> count() const = 0;
  // Hands a frame to `use`, as a square of `side` if set. False: the video has ended before it.
  virtual bool read(std::int64_t index, std::optional<std::int64_t> side, const UseFrame& use) = 0;
};

}  // namespace sam_rlx
