#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>

#include "bindings/register.h"
#include "checkpoint/open.h"

namespace py = pybind11;

namespace sam_rlx {
namespace {

// (name, dtype, shape) of each tensor, in the order of the file.
py::list list_tensors(const std::filesystem::path& source) {
  const StateDict state_dict = open_checkpoint(source);
  py::list rows;
  for (const TensorEntry& entry : state_dict.tensors()) {
    rows.append(py::make_tuple(entry.name, dtype_name(entry.dtype), py::tuple(py::cast(entry.dims))));
  }
  return rows;
}

}  // namespace

void register_checkpoint(py::module_& m) {
  m.def("list_tensors", list_tensors, py::arg("path"));
}

}  // namespace sam_rlx
