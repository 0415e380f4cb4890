#include "loading/model.h"

#include <algorithm>

#include "checkpoint/mapped_file.h"
#include "core/cores.h"
#include "core/error.h"
#include "kernels/select.h"
#include "loading/merge_adapter.h"
#include "loading/open.h"
#include "loading/replace_fields.h"
#include "loading/weight_hash.h"

namespace sam_rlx {
std::shared_ptr<const Model> Model::load(const std::string& path, const ModelOptions& options) {
  const WeightFormat precision =
      options.precision ? weight_format_named(*options.precision) : WeightFormat::kFloat32;
  const KernelTable& kernels = select_kernels(options.isa ? options.isa->c_str() : nullptr);
  StateDict state_dict = open_checkpoint(path_of(path), {.key = options.key});
  merge_adapters(state_dict, options.lora);
  if (options.config) state_dict.metadata["config"] = *options.config;
  const Family& family = to_meta_names(state_dict);
  check_whole(state_dict, family);
  if (!options.normalize) state_dict.metadata["preprocessor"] = R"({"do_normalize": false})";
  NetworkConfig config = family.config_of(state_dict, options.variant);
  if (options.fields) replace_fields(config, family, *options.fields);
  if (options.image_size) {
    std::visit([&](auto& sizes) { sizes.set_image_size(*options.image_size); }, config);
  }
  std::visit([&](auto& sizes) { sizes.set_rules(options.rules); }, config);
  verify_checksums(state_dict, available_cores());
  const std::shared_ptr<Model> model(new Model(kernels, family, config));
  model->precision_ = precision;
  model->rules_ = options.rules;
  std::visit(
      [&](auto& network) {
        const std::vector<std::string_view> ignored = network.config.ignored_keys();
        LoadOptions how{.strict = options.strict, .ignored = ignored, .packed = {}, .mapped = true};
        if (!options.precision) how.packed = network.config.packed_layers();
        model->report_ = load_parameters(network, state_dict, how);
        model->report_.merged = merged_names(state_dict);
        model->num_parameters_ = count_parameters(network);
        model->weights_hash_ = hash_weights(network);
        using Config = decltype(network.config);
        fold_and_pack(network, kernels, weight_rule<Config>(precision, kernels));
      },
      model->network_);
  return model;
}

void Model::require_text(const char* where) const {
  if (info_.supports_text) return;
  if (!std::holds_alternative<sam3::Sam3>(network_)) {
    fail<UnsupportedError>(where, "a model of SAM 3", info_.family);
  }
  fail<UnsupportedError>(where, "a SAM 3 checkpoint with all parts",
                         "one for clicks and videos alone: it lacks the text encoder, the geometry "
                         "encoder, the detector's neck, transformer, scores and segmentation head");
}

NetworkConfig Model::config() const {
  return std::visit([](const auto& network) { return NetworkConfig(network.config); }, network_);
}

std::string Model::precision() const {
  const auto most =
      std::max_element(report_.packed.begin(), report_.packed.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == report_.packed.end() ? weight_format_name(precision_) : most->first;
}

}  // namespace sam_rlx
