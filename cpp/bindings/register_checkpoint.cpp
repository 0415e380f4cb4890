#include <pybind11/stl.h>

#include "bindings/config_dict.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "checkpoint/quantize.h"
#include "checkpoint/text.h"
#include "core/cores.h"
#include "loading/family.h"
#include "loading/hugging_face_names.h"
#include "loading/open.h"

// Files of weights as what writes other files needs them: nothing of a network is made.

namespace sam_rlx {
namespace {

const TensorEntry& entry_of(const StateDict& self, const std::string& name) {
  const TensorEntry* const entry = self.find(name);
  if (entry == nullptr) throw py::key_error(name);
  return *entry;
}

py::list tensors_of(const StateDict& self) {
  py::list out;
  for (const TensorEntry& entry : self.tensors()) {
    out.append(
        py::make_tuple(entry.name, dtype_name(entry.dtype), py::tuple(py::cast(entry.dims))));
  }
  return out;
}

DType parse_dtype(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::kQ8_K); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == dtype_name(dtype) && can_quantize(dtype)) return dtype;
  }
  fail("dtype", "F32, F16, BF16, Q4_0, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K or Q8_K", name);
}

// The numbers of a tensor in another dtype, as GGUF stores them.
py::array_t<std::uint8_t> encode(const StateDict& self, const std::string& name,
                                 const std::string& dtype_text, int num_threads) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 22;  // between two looks for Ctrl-C
  const TensorEntry& entry = entry_of(self, name);
  const DType dtype = parse_dtype(dtype_text);
  const std::int64_t numel = entry.numel(), block = dtype_numbers(dtype);
  py::array_t<std::uint8_t> result(quantized_bytes(dtype, numel));
  auto* const out = reinterpret_cast<std::byte*>(result.mutable_data());
  const int threads = num_threads > 0 ? num_threads : available_cores();
  const GilRelease release;
  Tensor numbers(Shape{numel});
  copy_as_float(self, entry, numbers.data());
  for (std::int64_t begin = 0; begin < numel; begin += kChunk) {
    const std::int64_t count = std::min(kChunk, numel - begin);
    quantize(dtype, {numbers.data() + begin, static_cast<std::size_t>(count)},
             out + begin / block * dtype_bytes(dtype), threads, name);
    poll_python_signals();
  }
  return result;
}

// The bytes of a tensor as they are, row-major.
py::array_t<std::uint8_t> raw(const StateDict& self, const std::string& name) {
  const TensorEntry& entry = entry_of(self, name);
  py::array_t<std::uint8_t> result(stored_bytes(entry));
  auto* const out = reinterpret_cast<std::byte*>(result.mutable_data());
  const GilRelease release;
  copy_stored(self, entry, out);
  return result;
}

py::dict describe(const StateDict& self) {
  const Family& family = family_named(self.metadata.at("family"));
  return gguf_description(family.config_of(self, std::nullopt), family);
}

}  // namespace

void register_checkpoint(py::module_& m) {
  py::class_<StateDict>(m, "Checkpoint")
      .def(py::init([](const std::string& path, std::optional<std::string> key) {
             return open_checkpoint(path, {.key = std::move(key)});
           }),
           py::arg("path"), py::arg("key") = py::none())
      .def_readonly("metadata", &StateDict::metadata)
      .def_property_readonly("skipped", &StateDict::skipped)
      .def_property_readonly("tensors", tensors_of)
      .def("to_meta_names",
           [](StateDict& self) { return self.metadata["family"] = to_meta_names(self).name; })
      .def("describe", describe)
      .def("encode", encode, py::arg("name"), py::arg("dtype"), py::arg("num_threads") = 0)
      .def("raw", raw, py::arg("name"));
  m.def("meta_name", meta_name, py::arg("family"), py::arg("hugging_face_name"));
  m.def("to_short_name", to_short_name, py::arg("family"), py::arg("meta_name"));
}

}  // namespace sam_rlx
