#include "predictors/model.h"

#include "checkpoint/key_map.h"
#include "checkpoint/open.h"
#include "core/error.h"
#include "kernels/select.h"
#include "predictors/sam_config.h"

namespace sam_rlx {

std::shared_ptr<const Model> Model::load(const std::string& path, const ModelOptions& options) {
  if (options.precision && *options.precision != "float32") {
    fail<UnsupportedError>("precision", "float32", *options.precision);
  }
  const KernelTable& kernels = select_kernels(options.isa ? options.isa->c_str() : nullptr);
  StateDict state_dict = open_checkpoint(path);
  to_meta_names(state_dict);

  sam::SamConfig config = sam_config_of(state_dict, options.variant);
  if (options.image_size) config.set_img_size(*options.image_size);
  std::shared_ptr<Model> model(new Model(kernels, config));
  model->report_ =
      load_parameters(model->sam_, state_dict, {.strict = options.strict, .ignored = {}});
  model->num_parameters_ = count_parameters(model->sam_);
  Finalizer(kernels).walk(model->sam_);
  return model;
}

}  // namespace sam_rlx
