#include <pybind11/stl.h>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "checkpoint/open.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "predictors/model.h"

namespace sam_rlx {
namespace {

py::dict encoder_config(const sam::ImageEncoderConfig& c) {
  using namespace py::literals;
  return py::dict("img_size"_a = c.img_size, "patch_size"_a = c.patch_size,
                  "embed_dim"_a = c.embed_dim, "depth"_a = c.depth, "num_heads"_a = c.num_heads,
                  "mlp_dim"_a = c.mlp_dim, "out_chans"_a = c.out_chans,
                  "window_size"_a = c.window_size, "global_attn_indexes"_a = c.global_attn_indexes);
}

py::dict config_of(const Model& model) {
  using namespace py::literals;
  const sam::SamConfig& c = model.sam().config;
  const sam::TwoWayTransformerConfig& t = c.mask_decoder.transformer;
  return py::dict("image_encoder"_a = encoder_config(c.image_encoder),
                  "prompt_encoder"_a =
                      py::dict("embed_dim"_a = c.prompt_encoder.embed_dim,
                               "image_embedding_size"_a = c.prompt_encoder.image_embedding_size,
                               "input_image_size"_a = c.prompt_encoder.input_image_size,
                               "mask_in_chans"_a = c.prompt_encoder.mask_in_chans),
                  "mask_decoder"_a =
                      py::dict("num_multimask_outputs"_a = c.mask_decoder.num_multimask_outputs,
                               "iou_head_depth"_a = c.mask_decoder.iou_head_depth,
                               "iou_head_hidden_dim"_a = c.mask_decoder.iou_head_hidden_dim,
                               "transformer_depth"_a = t.depth, "embedding_dim"_a = t.embedding_dim,
                               "num_heads"_a = t.num_heads, "mlp_dim"_a = t.mlp_dim),
                  "pixel_mean"_a = c.pixel_mean, "pixel_std"_a = c.pixel_std);
}

py::dict report_of(const Model& model) {
  using namespace py::literals;
  const LoadReport& r = model.report();
  return py::dict("missing"_a = r.missing, "unexpected"_a = r.unexpected,
                  "misshaped"_a = r.misshaped, "ignored"_a = r.ignored, "skipped"_a = r.skipped);
}

std::shared_ptr<const Model> load_model(const std::string& path, std::optional<std::string> variant,
                                        std::optional<std::string> precision,
                                        std::optional<std::string> isa, bool strict,
                                        std::optional<std::int64_t> image_size) {
  const py::gil_scoped_release release;
  return Model::load(
      path, {std::move(variant), std::move(precision), std::move(isa), image_size, strict});
}

// Name, dtype and shape of every tensor of a file.
py::list list_tensors(const std::string& path) {
  py::list out;
  const StateDict state_dict = open_checkpoint(path);
  for (const TensorEntry& entry : state_dict.tensors()) {
    out.append(
        py::make_tuple(entry.name, dtype_name(entry.dtype), py::tuple(py::cast(entry.dims))));
  }
  return out;
}

py::dict build_info() {
  using namespace py::literals;
  py::list available;
  for (const KernelTable* table : available_kernels()) available.append(table->name);
  return py::dict("version"_a = SAM_RLX_VERSION, "compiler"_a = __VERSION__,
                  "compiled_isas"_a = compiled_isas(), "available_isas"_a = available,
                  "default_isa"_a = select_kernels(nullptr).name,
#ifdef _OPENMP
                  "openmp"_a = _OPENMP,
#else
                  "openmp"_a = py::none(),
#endif
                  "cores"_a = available_cores(), "device"_a = "cpu",
                  "families"_a = std::vector<std::string>{"sam"},
                  "precisions"_a = std::vector<std::string>{"float32"});
}

}  // namespace

void register_model(py::module_& m) {
  py::classh<Model>(m, "Model")
      .def_property_readonly("family", [](const Model&) { return "sam"; })
      .def_property_readonly("variant", [](const Model& x) { return x.sam().config.variant; })
      .def_property_readonly("precision", [](const Model&) { return "float32"; })
      .def_property_readonly("isa", [](const Model& x) { return x.kernels().name; })
      .def_property_readonly("num_parameters", &Model::num_parameters)
      .def_property_readonly("img_size",
                             [](const Model& x) { return x.sam().config.image_encoder.img_size; })
      .def_property_readonly(
          "mask_side",
          [](const Model& x) { return x.sam().config.prompt_encoder.mask_input_size(); })
      .def_property_readonly("mask_threshold",
                             [](const Model& x) { return x.sam().config.mask_threshold; })
      .def_property_readonly("config", config_of)
      .def_property_readonly("report", report_of);
  m.def("load_model", load_model, py::arg("path"), py::arg("variant") = py::none(),
        py::arg("precision") = py::none(), py::arg("isa") = py::none(), py::arg("strict") = true,
        py::arg("image_size") = py::none());
  m.def("list_tensors", list_tensors, py::arg("path"));
  m.def("build_info", build_info);
}

}  // namespace sam_rlx
