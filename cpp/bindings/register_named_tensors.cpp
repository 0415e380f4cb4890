#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <span>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "checkpoint/named_tensors.h"

// Image embeddings and sessions as files have them.

namespace sam_rlx {
namespace {

template <class T>
std::vector<T> vector_of(const std::string& name, const py::array& array) {
  const auto values = Array<T>::ensure(array);
  if (!values) throw py::error_already_set();
  if (values.ndim() != 1) fail(name, "1 axis", std::to_string(values.ndim()));
  return {values.data(), values.data() + values.size()};
}

NamedTensors::Array tensor_of(const std::string& name, const py::array& array) {
  if (py::isinstance<py::array_t<std::int64_t>>(array)) return vector_of<std::int64_t>(name, array);
  if (py::isinstance<py::array_t<double>>(array)) return vector_of<double>(name, array);
  if (!py::isinstance<py::array_t<float>>(array)) {
    fail(name, "dtype float32, float64 or int64", py::str(array.dtype()));
  }
  const auto values = Array<float>::ensure(array);
  if (!values) throw py::error_already_set();
  return Tensor::copy_of(view_of(values, name.c_str()));
}

// An array that NumPy may read as long as `owner` lives, which it keeps.
template <class T>
py::array array_of(const T* data, const std::vector<py::ssize_t>& sizes, const py::object& owner) {
  py::array_t<T> array(sizes, data, owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}
template <class T>
py::array array_of(const std::vector<T>& values, const py::object& owner) {
  return array_of(values.data(), {static_cast<py::ssize_t>(values.size())}, owner);
}
py::array array_of(const Tensor& tensor, const py::object& owner) {
  std::vector<py::ssize_t> sizes;
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) sizes.push_back(tensor.shape()[axis]);
  return array_of(tensor.data(), sizes, owner);
}

py::dict arrays_of(const py::object& self) {
  py::dict arrays;
  for (const auto& [name, array] : self.cast<const NamedTensors&>().arrays()) {
    arrays[py::str(name)] =
        std::visit([&](const auto& each) { return array_of(each, self); }, array);
  }
  return arrays;
}

}  // namespace

void register_named_tensors(py::module_& m) {
  py::classh<NamedTensors>(m, "NamedTensors")
      .def(py::init([](const std::map<std::string, py::array>& arrays,
                       std::map<std::string, std::string> metadata) {
             NamedTensors result;
             result.metadata = std::move(metadata);
             for (const auto& [name, array] : arrays) result.set(name, tensor_of(name, array));
             return result;
           }),
           py::arg("arrays"), py::arg("metadata") = py::dict())
      .def_static(
          "read",
          [](const std::filesystem::path& path) {
            const GilRelease release;
            return NamedTensors::read(path);
          },
          py::arg("path"))
      .def_readwrite("metadata", &NamedTensors::metadata)
      .def_property_readonly("arrays", arrays_of)
      .def(
          "save",
          [](const NamedTensors& self, const py::object& file) {
            self.save([&](std::span<const std::byte> bytes) {
              file.attr("write")(py::memoryview::from_memory(
                  bytes.data(), static_cast<py::ssize_t>(bytes.size())));
            });
          },
          py::arg("file"));
}

}  // namespace sam_rlx
