#include "bindings/errors.h"

#include <pybind11/stl/filesystem.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.h"

namespace py = pybind11;

namespace sam_rlx {
namespace {

// A file may have a name that is no UTF-8: such bytes are shown as \xe9.
void raise(const char* name, const char* text) {
  const py::object type = py::module_::import("sam_rlx.errors").attr(name);
  const auto size = static_cast<Py_ssize_t>(std::strlen(text));
  const auto shown =
      py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(text, size, "backslashreplace"));
  if (shown) PyErr_SetObject(type.ptr(), shown.ptr());
}

// OSError picks the class by errno: FileNotFoundError, IsADirectoryError, PermissionError, ...
void raise_os_error(const std::filesystem::filesystem_error& error) {
  const py::object path = py::module_::import("os").attr("fspath")(py::cast(error.path1()));
  errno = error.code().value();
  PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path.ptr());
}

}  // namespace

void register_errors(py::module_& /*module*/) {
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const InvalidArgument& error) {
      raise("InvalidArgumentError", error.what());
    } catch (const CheckpointError& error) {
      raise("CheckpointError", error.what());
    } catch (const UnsupportedError& error) {
      raise("UnsupportedError", error.what());
    } catch (const StateError& error) {
      raise("StateError", error.what());
    } catch (const InternalError& error) {
      raise("InternalError", error.what());
    } catch (const std::filesystem::filesystem_error& error) {
      raise_os_error(error);
    }
  });
}

}  // namespace sam_rlx
