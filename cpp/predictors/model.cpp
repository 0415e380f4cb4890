#include "predictors/model.h"

#include <algorithm>

#include "checkpoint/key_map.h"
#include "checkpoint/open.h"
#include "core/error.h"
#include "kernels/select.h"
#include "predictors/sam2_config.h"
#include "predictors/sam3_config.h"
#include "predictors/sam_config.h"

namespace sam_rlx {
namespace {

ModelInfo info_of(const sam::SamConfig& config) {
  return {.family = "sam",
          .variant = config.variant,
          .version = "1.0",
          .img_size = config.image_encoder.img_size,
          .mask_side = config.prompt_encoder.mask_input_size(),
          .num_multimask_outputs = config.mask_decoder.num_multimask_outputs,
          .mask_threshold = config.mask_threshold};
}

ModelInfo info_of(const sam2::Sam2Config& config) {
  return {.family = "sam2",
          .variant = config.variant,
          .version = config.version,
          .img_size = config.heads.base.image_size,
          .mask_side = 4 * config.heads.base.grid(),
          .num_multimask_outputs = config.heads.mask_decoder.num_multimask_outputs,
          .mask_threshold = config.mask_threshold};
}

ModelInfo info_of(const sam3::Sam3Config& config) {
  return {.family = "sam3",
          .variant = config.variant,
          .version = "3.0",
          .img_size = config.vision.trunk.img_size,
          .mask_side = 4 * config.vision.trunk.grid(),
          .num_multimask_outputs =
              config.tracker ? config.tracker->mask_decoder.num_multimask_outputs : 0,
          .mask_threshold = config.mask_threshold};
}

}  // namespace

std::shared_ptr<const Model> Model::load(const std::string& path, const ModelOptions& options) {
  const WeightFormat precision =
      options.precision ? weight_format_named(*options.precision) : WeightFormat::kFloat32;
  const KernelTable& kernels = select_kernels(options.isa ? options.isa->c_str() : nullptr);
  StateDict state_dict = open_checkpoint(path);
  const std::string family = to_meta_names(state_dict);

  std::shared_ptr<Model> model;
  std::vector<std::string_view> ignored;
  if (family == "sam3") {
    sam3::Sam3Config config = sam3_config_of(state_dict, options.variant);
    if (options.image_size) config.set_image_size(*options.image_size);
    ignored = config.ignored_keys();
    model.reset(
        new Model(kernels, Network(std::in_place_type<sam3::Sam3>, config), info_of(config)));
  } else if (family == "sam2") {
    sam2::Sam2Config config = sam2_config_of(state_dict, options.variant);
    if (options.image_size) config.set_image_size(*options.image_size);
    model.reset(
        new Model(kernels, Network(std::in_place_type<sam2::Sam2>, config), info_of(config)));
  } else {
    sam::SamConfig config = sam_config_of(state_dict, options.variant);
    if (options.image_size) config.set_img_size(*options.image_size);
    model.reset(new Model(kernels, Network(std::in_place_type<sam::Sam>, config), info_of(config)));
  }
  model->precision_ = precision;
  std::visit(
      [&](auto& network) {
        LoadOptions how{.strict = options.strict, .ignored = ignored, .packed = {}};
        if (!options.precision) how.packed = network.config.packed_layers();
        model->report_ = load_parameters(network, state_dict, how);
        model->num_parameters_ = count_parameters(network);
        fold_and_pack(network, kernels, {precision, network.config.reduced_layers()});
      },
      model->network_);
  return model;
}

std::string Model::precision() const {
  const auto most =
      std::max_element(report_.packed.begin(), report_.packed.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == report_.packed.end() ? weight_format_name(precision_) : most->first;
}

}  // namespace sam_rlx
