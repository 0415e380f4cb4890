#include <pybind11/stl.h>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "bindings/sam3_config.h"
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

py::dict transformer_config(const sam::TwoWayTransformerConfig& c) {
  using namespace py::literals;
  return py::dict("transformer_depth"_a = c.depth, "embedding_dim"_a = c.embedding_dim,
                  "num_heads"_a = c.num_heads, "mlp_dim"_a = c.mlp_dim);
}

py::dict sam_config(const sam::SamConfig& c) {
  using namespace py::literals;
  py::dict decoder = transformer_config(c.mask_decoder.transformer);
  decoder["num_multimask_outputs"] = c.mask_decoder.num_multimask_outputs;
  decoder["iou_head_depth"] = c.mask_decoder.iou_head_depth;
  decoder["iou_head_hidden_dim"] = c.mask_decoder.iou_head_hidden_dim;
  return py::dict("image_encoder"_a = encoder_config(c.image_encoder),
                  "prompt_encoder"_a =
                      py::dict("embed_dim"_a = c.prompt_encoder.embed_dim,
                               "image_embedding_size"_a = c.prompt_encoder.image_embedding_size,
                               "input_image_size"_a = c.prompt_encoder.input_image_size,
                               "mask_in_chans"_a = c.prompt_encoder.mask_in_chans),
                  "mask_decoder"_a = decoder, "pixel_mean"_a = c.pixel_mean,
                  "pixel_std"_a = c.pixel_std);
}

py::dict sam2_config(const sam2::Sam2Config& c) {
  using namespace py::literals;
  const sam2::HieraConfig& trunk = c.image_encoder.trunk;
  const sam2::HeadsConfig& heads = c.heads;
  py::dict decoder = transformer_config(heads.mask_decoder.transformer);
  decoder["num_multimask_outputs"] = heads.mask_decoder.num_multimask_outputs;
  decoder["iou_head_depth"] = heads.mask_decoder.iou_head_depth;
  decoder["iou_head_hidden_dim"] = heads.mask_decoder.iou_head_hidden_dim;
  return py::dict(
      "image_size"_a = heads.base.image_size,
      "trunk"_a =
          py::dict("embed_dim"_a = trunk.embed_dim, "num_heads"_a = trunk.num_heads,
                   "stages"_a = trunk.stages, "window_spec"_a = trunk.window_spec,
                   "global_att_blocks"_a = trunk.global_att_blocks,
                   "window_pos_embed_bkg_spatial_size"_a = trunk.window_pos_embed_bkg_spatial_size),
      "neck"_a = py::dict("d_model"_a = c.image_encoder.neck.d_model,
                          "fpn_top_down_levels"_a = c.image_encoder.neck.fpn_top_down_levels),
      "mask_decoder"_a = decoder,
      "memory_attention"_a = py::dict("num_layers"_a = heads.memory_attention.num_layers,
                                      "dim_feedforward"_a = heads.memory_attention.dim_feedforward),
      "mem_dim"_a = heads.mem_dim(), "num_maskmem"_a = heads.memory_bank.num_maskmem,
      "pixel_mean"_a = c.pixel_mean, "pixel_std"_a = c.pixel_std);
}

py::dict config_of(const Model& model) {
  if (model.is_sam3()) return sam3_config(model.sam3().config);
  return model.is_sam2() ? sam2_config(model.sam2().config) : sam_config(model.sam().config);
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
                  "families"_a = std::vector<std::string>{"sam", "sam2", "sam3"},
                  "precisions"_a = std::vector<std::string>{"float32", "bfloat16", "int8"});
}

}  // namespace

void register_model(py::module_& m) {
  py::classh<Model>(m, "Model")
      .def_property_readonly("family", [](const Model& x) { return x.info().family; })
      .def_property_readonly("variant", [](const Model& x) { return x.info().variant; })
      .def_property_readonly("version", [](const Model& x) { return x.info().version; })
      .def_property_readonly("precision",
                             [](const Model& x) { return weight_format_name(x.precision()); })
      .def_property_readonly("isa", [](const Model& x) { return x.kernels().name; })
      .def_property_readonly("num_parameters", &Model::num_parameters)
      .def_property_readonly("img_size", [](const Model& x) { return x.info().img_size; })
      .def_property_readonly("mask_side", [](const Model& x) { return x.info().mask_side; })
      .def_property_readonly("mask_threshold",
                             [](const Model& x) { return x.info().mask_threshold; })
      .def_property_readonly("config", config_of)
      .def_property_readonly("report", report_of);
  m.def("load_model", load_model, py::arg("path"), py::arg("variant") = py::none(),
        py::arg("precision") = py::none(), py::arg("isa") = py::none(), py::arg("strict") = true,
        py::arg("image_size") = py::none());
  m.def("list_tensors", list_tensors, py::arg("path"));
  m.def("build_info", build_info);
}

}  // namespace sam_rlx
