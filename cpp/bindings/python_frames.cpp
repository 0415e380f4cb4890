#include "bindings/python_frames.h"

#include <pybind11/stl.h>

#include "bindings/image_array.h"

namespace sam_rlx {

std::optional<std::int64_t> PythonFrames::count() const {
  const GilTaken taken;
  return frames_.attr("count").cast<std::optional<std::int64_t>>();
}

bool PythonFrames::read(std::int64_t index, std::optional<std::int64_t> side, const UseFrame& use) {
  // What Python gave: dropped with the GIL, used without it.
  struct Frame {
    std::optional<ImageArray> pixels = {};
    std::optional<Size> orig_hw = {};
    ~Frame() {
      const GilTaken taken;
      pixels.reset();
    }
  } frame;
  {
    const GilTaken taken;
    const py::object arguments = py::make_tuple(index, side);
    const py::object read = frames_.attr("read");
    const auto answer = py::reinterpret_steal<py::object>(
        called([&] { return PyObject_CallObject(read.ptr(), arguments.ptr()); }));
    if (answer.is_none()) return false;
    if (!py::isinstance<py::tuple>(answer)) {
      frame.pixels.emplace(answer.cast<py::array>());
    } else {
      const auto [pixels, hw] =
          answer.cast<std::pair<py::array, std::pair<std::int64_t, std::int64_t>>>();
      frame.pixels.emplace(pixels);
      frame.orig_hw = Size{hw.first, hw.second};
    }
  }
  use(frame.pixels->view(), frame.orig_hw);
  return true;
}

std::unique_ptr<FrameSource> frames_of(const py::object& frames) {
  if (frames.is_none()) return nullptr;
  return std::make_unique<PythonFrames>(frames);
}

}  // namespace sam_rlx
