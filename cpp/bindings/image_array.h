#pragma once

#include <pybind11/numpy.h>

#include <string>

#include "core/error.h"
#include "core/image.h"
#include "predictors/image/image_transform.h"

namespace sam_rlx {

// How image predictors resize, by name. Raises InvalidArgument for another one.
inline Resize resize_named(const std::string& name) {
  if (name == "float") return Resize::kFloat;
  if (name != "integer") fail("resize", "\"float\" or \"integer\"", '"' + name + '"');
  return Resize::kInteger;
}
inline const char* resize_name(Resize resize) {
  return resize == Resize::kFloat ? "float" : "integer";
}

// A NumPy image and the memory behind it. Rows may be apart or upside down; anything else that
// is not plain RGB bytes is copied once.
class ImageArray {
 public:
  explicit ImageArray(const pybind11::array& image) : array_(image) {
    const bool rgb = array_.ndim() == 3 && array_.shape(2) == 3;
    if (!rgb || !pybind11::isinstance<pybind11::array_t<std::uint8_t>>(array_)) {
      std::string found = std::string(pybind11::str(array_.dtype())) + " (";
      for (pybind11::ssize_t axis = 0; axis < array_.ndim(); ++axis) {
        found += (axis > 0 ? ", " : "") + std::to_string(array_.shape(axis));
      }
      fail("image", "uint8 (H, W, 3)", found + ")");
    }
    if (array_.strides(2) != 1 || array_.strides(1) != 3) {
      array_ = pybind11::array_t<std::uint8_t, pybind11::array::c_style>::ensure(array_);
      if (!array_) throw pybind11::error_already_set();
    }
  }

  ImageView view() const {
    return {static_cast<const std::uint8_t*>(array_.data()), array_.shape(0), array_.shape(1),
            array_.strides(0)};
  }

 private:
  pybind11::array array_;
};

}  // namespace sam_rlx
