#pragma once

#include "bindings/numpy.h"
#include "predictors/video/frame_source.h"

namespace sam_rlx {

// A Python object as a source of frames: `count`, an int or None, and `read(index, side)`, which
// gives uint8 (H, W, 3), or that and the size (H, W) that the frame had, or None if the video has
// ended. Each call takes the GIL and gives it back, as it found it.
class PythonFrames : public FrameSource {
 public:
  explicit PythonFrames(py::object frames) : frames_(std::move(frames)) {}

  std::optional<std::int64_t> count() const override;
  bool read(std::int64_t index, std::optional<std::int64_t> side, const UseFrame& use) override;

 private:
  py::object frames_;
};

// None: a null pointer.
std::unique_ptr<FrameSource> frames_of(const py::object& frames);

}  // namespace sam_rlx
