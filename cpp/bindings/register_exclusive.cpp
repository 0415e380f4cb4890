#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "bindings/register.h"
#include "core/in_use.h"

namespace sam_rlx {
namespace {

namespace py = pybind11;

// A Python context for one call at a time. It is no Python code, so that a signal cannot come
// between the end of the block and its own end.
class Exclusive {
 public:
  explicit Exclusive(std::string owner) : owner_(std::move(owner)) {}
  void enter() { busy_.take(owner_.c_str()); }
  void exit(const py::args&) { busy_.give_back(); }

 private:
  std::string owner_;
  BusyFlag busy_;
};

}  // namespace

void register_exclusive(py::module_& m) {
  py::classh<Exclusive>(m, "Exclusive")
      .def(py::init<std::string>(), py::arg("owner"))
      .def("__enter__", &Exclusive::enter)
      .def("__exit__", &Exclusive::exit);
}

}  // namespace sam_rlx
