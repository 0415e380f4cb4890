#include <cmath>

#include "bindings/config_dict.h"
#include "bindings/image_array.h"
#include "bindings/register.h"
#include "predictors/concept/concept_predictor.h"
#include "predictors/image/image_front_end.h"
#include "predictors/image/mask_generator.h"
#include "predictors/video/masklet_tracker.h"
#include "predictors/video/memory_rule.h"
#include "predictors/video/video_session.h"

// Options of predictors, as Python's checks and the command line's help read them.

namespace sam_rlx {
namespace {

// The number that a float is written as: 0.7, not 0.699999988.
double plain(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

struct OptionDescriber {
  static constexpr bool kTold = false;
  py::dict options = {};

  template <class T>
  void operator()(const Field& field, const T& value) {
    using namespace py::literals;
    py::object usual;
    if constexpr (std::is_same_v<T, float>) {
      usual = py::float_(plain(value));
    } else if constexpr (std::is_same_v<T, Resize>) {
      usual = py::str(resize_name(value));
    } else {
      usual = py::cast(value);
    }
    options[py::str(std::string(field.name()))] = py::dict(
        "default"_a = usual, "min"_a = field.min, "max"_a = field.max, "help"_a = field.help);
  }
};

template <class Options>
py::dict described(Options options) {
  OptionDescriber describer;
  visit_fields(options, describer);
  return describer.options;
}

// By kind of predictor; defaults are those of the family.
py::dict options(const std::string& kind, const std::string& family) {
  const PredictorDefaults& defaults = family_named(family).defaults;
  if (kind == "image") return described(ImageOptions{});
  if (kind == "concept") return described(ConceptOptions{});
  if (kind == "generator") {
    MaskGeneratorConfig config;
    config.pred_iou_thresh = defaults.pred_iou_thresh;
    return described(config);
  }
  if (kind == "video") {
    VideoOptions config;
    config.fill_hole_area = defaults.fill_hole_area;
    config.use_memory_selection = defaults.memory_selection;
    return described(config);
  }
  if (kind == "text") return described(MaskletConfig{});
  fail("kind", "image, concept, generator, video or text", kind);
}

}  // namespace

void register_options(py::module_& m) {
  m.def("memory_rules", &MemoryRule::names);
  m.def("options", options, py::arg("kind"), py::arg("family"));
}

}  // namespace sam_rlx
