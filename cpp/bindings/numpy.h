#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "core/error.h"
#include "core/tensor.h"

namespace sam_rlx {

namespace py = pybind11;

// C-contiguous arrays of one type. Anything else is copied once at the border.
template <class T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <class T>
Shape shape_of(const Array<T>& array, const char* where) {
  if (array.ndim() > Shape::kMaxRank) {
    fail(where, "at most 5 axes", std::to_string(array.ndim()));
  }
  Shape shape;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(array.shape(axis));
  return shape;
}

inline ConstView view_of(const Array<float>& array, const char* where) {
  return {array.data(), shape_of(array, where)};
}

template <class T>
py::array_t<T> make_array(const Shape& shape) {
  std::vector<py::ssize_t> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) sizes.push_back(shape[axis]);
  return py::array_t<T>(sizes);
}

inline View view_of(py::array_t<float>& array) {
  Shape shape;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(array.shape(axis));
  return {array.mutable_data(), shape};
}

// Hands a tensor over to NumPy without a copy.
inline py::array_t<float> to_numpy(Tensor tensor) {
  auto* const owner = new Tensor(std::move(tensor));
  const py::capsule capsule(owner, [](void* pointer) { delete static_cast<Tensor*>(pointer); });
  std::vector<py::ssize_t> sizes;
  for (int axis = 0; axis < owner->shape().rank(); ++axis) sizes.push_back(owner->shape()[axis]);
  return py::array_t<float>(sizes, owner->data(), capsule);
}

inline py::tuple to_numpy(std::vector<Tensor> tensors) {
  py::list arrays;
  for (Tensor& tensor : tensors) arrays.append(to_numpy(std::move(tensor)));
  return py::tuple(arrays);
}

}  // namespace sam_rlx
