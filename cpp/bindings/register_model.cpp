#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <iterator>

#include "bindings/config_dict.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "checkpoint/mapped_file.h"
#include "core/cores.h"
#include "core/image.h"
#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "loading/choose_checkpoint.h"
#include "loading/model.h"
#include "loading/open.h"

namespace sam_rlx {
namespace {

py::dict report_of(const Model& model) {
  using namespace py::literals;
  const LoadReport& r = model.report();
  return py::dict("missing"_a = r.missing, "unexpected"_a = r.unexpected,
                  "misshaped"_a = r.misshaped, "ignored"_a = r.ignored, "skipped"_a = r.skipped,
                  "merged"_a = r.merged);
}

std::shared_ptr<const Model> load_model(
    const std::filesystem::path& path, std::optional<std::string> variant,
    std::optional<std::string> precision, std::optional<std::string> isa, bool strict,
    std::optional<std::int64_t> image_size, std::optional<std::string> key,
    std::optional<std::string> fields, std::optional<std::string> lora, bool normalize,
    std::optional<std::string> config, const py::dict& rules) {
  const auto asked = read_options<Rules>(rules, "rules", "names of rules");
  const GilRelease release;
  return Model::load(utf8_of(path), {std::move(variant), std::move(precision), std::move(isa),
                                     image_size, strict, std::move(key), std::move(fields),
                                     std::move(lora), normalize, std::move(config), asked});
}

// What a file holds and how it is wrapped, whether it is a model or not.
py::dict inspect_checkpoint(const std::filesystem::path& path, std::optional<std::string> key) {
  using namespace py::literals;
  const StateDict state_dict = open_checkpoint(path, {.key = std::move(key), .any = true});
  py::list tensors;
  for (const TensorEntry& entry : state_dict.tensors()) {
    tensors.append(
        py::make_tuple(entry.name, dtype_name(entry.dtype), py::tuple(py::cast(entry.dims))));
  }
  return py::dict("container"_a = state_dict.origin.container, "key"_a = state_dict.origin.key,
                  "keys"_a = state_dict.origin.keys, "prefix"_a = state_dict.origin.prefix,
                  "metadata"_a = state_dict.metadata, "skipped"_a = state_dict.skipped(),
                  "tensors"_a = tensors);
}

// Name, dtype and shape of every tensor of a file.
py::list list_tensors(const std::filesystem::path& path, std::optional<std::string> key) {
  py::list out;
  const StateDict state_dict = open_checkpoint(path, {.key = std::move(key)});
  for (const TensorEntry& entry : state_dict.tensors()) {
    out.append(
        py::make_tuple(entry.name, dtype_name(entry.dtype), py::tuple(py::cast(entry.dims))));
  }
  return out;
}

// Name of the kernels that a model gets by default; None where the environment names some that this
// processor lacks. Loading a model tells that as an error, importing the package does not.
py::object default_isa() {
  try {
    return py::str(select_kernels(nullptr).name);
  } catch (const UnsupportedError&) {
    return py::none();
  }
}

py::dict build_info() {
  using namespace py::literals;
  py::list available;
  for (const KernelTable* table : available_kernels()) available.append(table->name);
  return py::dict("version"_a = SAM_RLX_VERSION, "compiler"_a = __VERSION__,
                  "compiled_isas"_a = compiled_isas(), "available_isas"_a = available,
                  "default_isa"_a = default_isa(),
#ifdef _OPENMP
                  "openmp"_a = _OPENMP,
#else
                  "openmp"_a = py::none(),
#endif
                  "cores"_a = available_cores(), "device"_a = "cpu", "families"_a = family_names(),
                  "precisions"_a = std::vector<std::string>{"float32", "bfloat16", "int8"});
}

// Every file that was released, by family, smallest first.
py::list releases() {
  using namespace py::literals;
  py::list out;
  for (const Family* const family : families()) {
    for (const Release& release : family->releases()) {
      for (const ReleasedFile& file : release.files) {
        out.append(py::dict("family"_a = family->name, "variant"_a = release.variant,
                            "version"_a = file.version, "file"_a = file.name,
                            "bytes"_a = file.bytes, "source"_a = release.source,
                            "license"_a = release.license, "purpose"_a = release.purpose));
      }
    }
  }
  return out;
}

}  // namespace

void register_model(py::module_& m) {
  py::classh<Model>(m, "Model")
      .def_property_readonly("family", [](const Model& x) { return x.info().family; })
      .def_property_readonly("variant", [](const Model& x) { return x.info().variant; })
      .def_property_readonly("version", [](const Model& x) { return x.info().version; })
      .def_property_readonly("precision", &Model::precision)
      .def_property_readonly("isa", [](const Model& x) { return x.kernels().name; })
      .def_property_readonly("num_parameters", &Model::num_parameters)
      .def_property_readonly("weights_hash", &Model::weights_hash)
      .def_property_readonly("img_size", [](const Model& x) { return x.info().img_size; })
      .def_property_readonly("mask_side", [](const Model& x) { return x.info().mask_side; })
      .def_property_readonly("mask_threshold",
                             [](const Model& x) { return x.info().mask_threshold; })
      .def_property_readonly("supports_video",
                             [](const Model& x) { return x.info().supports_video; })
      .def_property_readonly("supports_text", [](const Model& x) { return x.info().supports_text; })
      .def_property_readonly("has_hq_token", [](const Model& x) { return x.info().has_hq_token; })
      .def_property_readonly("config",
                             [](const Model& x) { return python_config(x.config(), x.family()); })
      .def_property_readonly("report", report_of);
  m.def("load_model", load_model, py::arg("path"), py::arg("variant") = py::none(),
        py::arg("precision") = py::none(), py::arg("isa") = py::none(), py::arg("strict") = true,
        py::arg("image_size") = py::none(), py::arg("key") = py::none(),
        py::arg("fields") = py::none(), py::arg("lora") = py::none(), py::arg("normalize") = true,
        py::arg("config") = py::none(), py::arg("rules") = py::dict());
  m.def("list_tensors", list_tensors, py::arg("path"), py::arg("key") = py::none());
  m.def("inspect_checkpoint", inspect_checkpoint, py::arg("path"), py::arg("key") = py::none());
  m.def(
      "resolve_checkpoint",
      [](const std::filesystem::path& folder, const std::string& prefer) {
        return resolve_checkpoint(folder, prefer);
      },
      py::arg("folder"), py::arg("prefer"));
  m.def(
      "choose_checkpoint",
      [](const std::vector<std::string>& names, const std::string& where,
         const std::string& argument) {
        return choose_checkpoint(names, {.where = where, .argument = argument});
      },
      py::arg("names"), py::arg("where"), py::arg("argument"));
  m.attr("CHECKPOINT_SUFFIXES") = py::tuple(
      py::cast(std::vector(std::begin(kCheckpointSuffixes), std::end(kCheckpointSuffixes))));
  m.attr("ADAPTER_FILES") = py::make_tuple(kAdapterFile, kAdapterWeights[0], kAdapterWeights[1]);
  m.attr("FOLDER_FILES") = py::make_tuple(kConfigFile, kPreprocessorFile, kProcessorFile);
  m.def("build_info", build_info);
  m.def("releases", releases);
  m.def(
      "settings", [](const std::string& family) { return setting_names(family_named(family)); },
      py::arg("family"));
  m.attr("MAX_IMAGE_PIXELS") = kMaxImagePixels;
}

}  // namespace sam_rlx
