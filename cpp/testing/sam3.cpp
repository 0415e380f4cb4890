#include "loading/model.h"
#include "loading/open.h"
#include "ops/elementwise.h"
#include "testing/layer.h"
#include "testing/register.h"

// SAM 3 as checkpoints hold it.

namespace sam_rlx {
namespace {

py::dict config_of(const std::string& path, const std::optional<std::string>& variant) {
  StateDict state_dict = open_checkpoint(path);
  const Family& family = to_meta_names(state_dict);
  const NetworkConfig config = family.config_of(state_dict, variant);
  py::dict out = python_config(config, family);
  out["variant"] = family.info_of(config).variant;
  return out;
}

struct DetectOptions {
  std::vector<std::int64_t> kept;  // queries whose masks are made
  std::optional<std::string> isa;
  int num_threads = 1;
};

// image (1, S, S, 3) normalized, ids (N, L): texts
// -> logits (N, Q), boxes (N, Q, 4), presence logits (N,), masks (N, K, 4g, 4g),
//    semantic (N, 1, 4g, 4g)
py::object detect(const std::string& path, const Array<float>& image,
                  const Array<std::int64_t>& ids, const DetectOptions& options) {
  ModelOptions model_options;
  model_options.isa = options.isa;
  const auto model = Model::load(path, model_options);
  const sam3::Sam3& sam3 = model->sam3();
  Workspace workspace;
  Context ctx{
      .kernels = model->kernels(), .workspace = workspace, .num_threads = options.num_threads};
  sam3::DetectorFeatures features;
  sam3.forward_image(ctx, view_of(image, "image"), {.detector = &features});

  const std::int64_t count = ids.shape(0), queries = sam3.config.detector.num_queries;
  const std::int64_t kept = static_cast<std::int64_t>(options.kept.size());
  const std::int64_t side = model->info().mask_side;
  Tensor logits({count, queries}), boxes({count, queries, 4}), presence({count});
  Tensor masks({count, kept, side, side}), semantic({count, 1, side, side});
  const Workspace::Scope scratch(workspace);
  const sam3::TextFeatures text =
      sam3.forward_text(ctx, {.data = ids.data(), .count = count, .length = ids.shape(1)});
  for (std::int64_t i = 0; i < count; ++i) {
    const Workspace::Scope one(workspace);
    const sam3::DetectorHeads& heads = *sam3.detector.heads;
    const sam3::Detections found =
        heads.detect(ctx, features, {.text = text.text(i), .text_padding = text.text_padding(i)});
    copy_(ctx, logits.view()[i], found.logits);
    copy_(ctx, boxes.view()[i], found.boxes);
    presence.data()[i] = found.presence_logit;
    heads.segment(ctx, features, found,
                  {.kept = options.kept, .masks = masks.view()[i], .semantic = semantic.view()[i]});
  }
  py::list out;
  for (Tensor* const tensor : {&logits, &boxes, &presence, &masks, &semantic}) {
    out.append(to_numpy(std::move(*tensor)));
  }
  return py::tuple(out);
}

// Blocks of memory that each of `calls` rounds took: an image for all heads, a text, a mask.
std::vector<std::int64_t> sam3_allocations(const std::string& path, int calls) {
  const auto model = Model::load(path, {});
  const sam3::Sam3& sam3 = model->sam3();
  const std::int64_t side = model->info().img_size, low = model->info().mask_side;
  Workspace workspace;
  Context ctx{.kernels = model->kernels(), .workspace = workspace, .num_threads = 2};
  sam3::DetectorFeatures features;
  sam2::ImageFeatures clicks;
  const Tensor image = Tensor::zeros({1, side, side, 3});
  Tensor masks({1, low, low});
  const std::int64_t ids[] = {49406, 320, 2368, 49407};
  const std::vector<std::int64_t> kept{0};
  std::vector<std::int64_t> taken;
  for (int i = 0; i < calls; ++i) {
    const std::int64_t before = allocation_count();
    const Workspace::Scope scratch(workspace);
    sam3.forward_image(ctx, image, {.detector = &features, .tracker = &clicks});
    const sam3::TextFeatures text =
        sam3.forward_text(ctx, {.data = ids, .count = 1, .length = std::ssize(ids)});
    const sam3::Detections found =
        sam3.detector.heads->detect(ctx, features, {.text = text.text(0)});
    sam3.detector.heads->segment(ctx, features, found, {.kept = kept, .masks = masks});
    taken.push_back(allocation_count() - before);
  }
  return taken;
}

// Parameters of the released SAM 3, or SAM 3.1, with its tracker: [(name, shape), ...].
std::vector<std::pair<std::string, std::vector<std::int64_t>>> released_parameters(bool is_3_1) {
  sam3::Sam3Config config;
  config.vision.neck.add_sam2_neck = true;
  if (is_3_1) {
    config.use_3_1();
    config.use_multiplex();
  }
  config.tracker = sam3::tracker_heads(config.vision);
  sam3::Sam3 network(config);
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> result;
  for (const auto& [name, shape] : list_parameters(network)) {
    std::vector<std::int64_t> sizes;
    for (int axis = 0; axis < shape.rank(); ++axis) sizes.push_back(shape[axis]);
    result.emplace_back(name, sizes);
  }
  return result;
}

}  // namespace

void register_sam3(py::module_& m) {
  m.def("sam3_parameters", released_parameters, py::arg("is_3_1") = false);
  m.def("sam3_allocations", sam3_allocations, py::arg("path"), py::arg("calls"));
  m.def("sam3_config", config_of, py::arg("path"), py::arg("variant") = py::none());
  m.def(
      "sam3_detect",
      [](const std::string& path, const Array<float>& image, const Array<std::int64_t>& ids,
         std::vector<std::int64_t> kept, std::optional<std::string> isa, int num_threads) {
        return detect(path, image, ids, {std::move(kept), std::move(isa), num_threads});
      },
      py::arg("path"), py::arg("image"), py::arg("ids"), py::arg("kept"),
      py::arg("isa") = py::none(), py::arg("num_threads") = 1);
}

}  // namespace sam_rlx
