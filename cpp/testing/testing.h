#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <string>

#include "core/blocks.h"
#include "core/context.h"
#include "core/error.h"
#include "kernels/select.h"

namespace sam_rlx {

using FloatArray = pybind11::array_t<float, pybind11::array::c_style | pybind11::array::forcecast>;

// A context of its own for one call.
class TestContext {
 public:
  TestContext(const std::optional<std::string>& isa, int num_threads)
      : context{select_kernels(isa ? isa->c_str() : nullptr), workspace_} {
    context.num_threads = num_threads;
  }

 private:
  Workspace workspace_;

 public:
  Context context;
};

inline Shape shape_of(const FloatArray& array) {
  Shape shape;
  for (pybind11::ssize_t i = 0; i < array.ndim(); ++i) shape.push_back(array.shape(i));
  return shape;
}
inline ConstView view_of(const FloatArray& array) { return {array.data(), shape_of(array)}; }
inline ConstView view_of(const std::optional<FloatArray>& array) {
  return array ? view_of(*array) : ConstView();
}
inline const float* data_of(const std::optional<FloatArray>& array) {
  return array ? array->data() : nullptr;
}
inline FloatArray make_array(const Shape& shape) {
  std::vector<pybind11::ssize_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  return FloatArray(sizes);
}
inline View mutable_view_of(FloatArray& array) { return {array.mutable_data(), shape_of(array)}; }

inline BlockFormat block_format_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(BlockFormat::kMXFP4); ++i) {
    const auto format = static_cast<BlockFormat>(i);
    if (name == block_facts(format).name) return format;
  }
  fail("format", "a packed format of GGUF", name);
}

}  // namespace sam_rlx
