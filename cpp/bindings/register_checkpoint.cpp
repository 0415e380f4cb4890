#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>

#include "bindings/config_dict.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "checkpoint/quantize.h"
#include "checkpoint/text.h"
#include "core/cores.h"
#include "loading/family.h"
#include "loading/hugging_face_config.h"
#include "loading/hugging_face_names.h"
#include "loading/loader.h"
#include "loading/merge_adapter.h"
#include "loading/network.h"
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
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == dtype_name(dtype) && can_quantize(dtype)) return dtype;
  }
  fail("dtype", "a number format of GGUF files", name);
}

// Name, ggml's number, numbers and bytes of a block, whether they are integers, and whether
// safetensors has the format.
py::list number_formats() {
  py::list out;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    out.append(py::make_tuple(dtype_name(dtype), ggml_number(dtype), dtype_numbers(dtype),
                              dtype_bytes(dtype), dtype_kind(dtype) == NumberKind::kInteger,
                              in_safetensors(dtype)));
  }
  return out;
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

py::object python_json(const Json& json) {
  constexpr const char* kUnused = "";
  if (json.is_boolean()) return py::bool_(json.boolean(kUnused));
  if (json.is_integer()) return py::int_(json.integer(kUnused));
  if (json.is_string()) return py::str(json.string(kUnused));
  if (json.is_array()) {
    py::list list;
    for (const Json& each : json.array(kUnused)) list.append(python_json(each));
    return list;
  }
  if (json.is_object()) {
    py::dict members;
    for (const auto& [key, value] : json.object(kUnused)) {
      members[py::str(key)] = python_json(value);
    }
    return members;
  }
  if (json.is_null()) return py::none();
  return py::float_(json.number(kUnused));
}

// Meta's names, and of what ggml wrote Meta's axes.
std::string to_metas_names(StateDict& self) {
  const Family& family = to_meta_names(self);
  if (self.origin.container == "GGUF") {
    Network network = make_network(family.config_of(self, std::nullopt));
    std::visit([&](auto& each) { restore_shapes(list_parameters(each), self); }, network);
  }
  return self.metadata["family"] = family.name;
}

// Settings of a folder of transformers, for parts of tensors with Meta's names.
py::object folder_config(const StateDict& self, FolderParts parts) {
  const Family& family = family_named(self.metadata.at("family"));
  const NetworkConfig config = family.config_of(self, std::nullopt);
  return python_json(family.folder_config_of(self, config, parts));
}

// Gives tensors with Meta's names transformers', and reads them again with the text of the
// config.json that is written beside them: a setting that it cannot hold raises UnsupportedError.
void to_folder_names(StateDict& self, const std::string& config_text,
                     const std::string& preprocessor_text) {
  const Family& family = family_named(self.metadata.at("family"));
  const NetworkConfig config = family.config_of(self, std::nullopt);
  family.to_hugging_face(self, config);
  self.metadata = {{"config", config_text}, {"preprocessor", preprocessor_text}};
  StateDict again = self;
  again.source = "the folder for transformers";
  const py::dict wanted = field_values_of(config, kNotInFolder);
  const py::dict found = field_values_of(to_meta_names(again).config_of(again, std::nullopt));
  for (const auto& [path, value] : wanted) {
    if (found.contains(path) && py::object(found[path]).equal(value)) continue;
    const std::string now = found.contains(path) ? py::str(found[path]) : py::str("none");
    fail<UnsupportedError>(
        py::str(path), now,
        py::str(value).cast<std::string>() + ", which transformers has no setting for");
  }
}

// By the type in config.json: the class, its processor and what makes pixels of images.
py::dict transformers_classes() {
  py::dict out;
  for (const HuggingFaceClass& kind : hugging_face_classes()) {
    out[py::cast(kind.model_type)] =
        py::make_tuple(kind.name, kind.processor, kind.image_processor);
  }
  return out;
}

py::dict describe(const StateDict& self) {
  const Family& family = family_named(self.metadata.at("family"));
  return gguf_description(family.config_of(self, std::nullopt), family);
}

}  // namespace

void register_checkpoint(py::module_& m) {
  py::class_<StateDict>(m, "Checkpoint")
      .def(py::init([](const std::filesystem::path& path, std::optional<std::string> key,
                       const std::optional<std::string>& lora) {
             const GilRelease release;
             StateDict state_dict = open_checkpoint(path, {.key = std::move(key)});
             merge_adapters(state_dict, lora);
             return state_dict;
           }),
           py::arg("path"), py::arg("key") = py::none(), py::arg("lora") = py::none())
      .def_readonly("metadata", &StateDict::metadata)
      .def_property_readonly("skipped", &StateDict::skipped)
      .def_property_readonly("tensors", tensors_of)
      .def("verify",
           [](const StateDict& self) {
             const GilRelease release;
             verify_checksums(self, available_cores());
           })
      .def("to_meta_names", to_metas_names)
      .def("complete",
           [](StateDict& self) {
             const auto complete = family_named(self.metadata.at("family")).complete;
             if (complete != nullptr) complete(self);
           })
      .def("describe", describe)
      .def("folder_config",
           [](const StateDict& self) { return folder_config(self, FolderParts::kAll); })
      .def("folder_config_of_clicks",
           [](const StateDict& self) { return folder_config(self, FolderParts::kClicks); })
      .def("folder_config_of_detector",
           [](const StateDict& self) { return folder_config(self, FolderParts::kDetector); })
      .def("to_folder_names", to_folder_names, py::arg("config"), py::arg("preprocessor"))
      .def("encode", encode, py::arg("name"), py::arg("dtype"), py::arg("num_threads") = 0)
      .def("raw", raw, py::arg("name"));
  m.def("transformers_classes", transformers_classes);
  m.def("number_formats", number_formats);
  m.def("meta_name", meta_name, py::arg("family"), py::arg("hugging_face_name"));
  m.def("to_short_name", to_short_name, py::arg("family"), py::arg("meta_name"));
}

}  // namespace sam_rlx
