#include "bindings/text_prompt.h"

#include <string>
#include <utility>

#include "bindings/config_dict.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

// Rules of upstream's video model that are left out here, and what holds instead.
constexpr std::pair<const char*, const char*> kLeftOut[] = {
    {"o2o_matching_masklets_enable", "a finding confirms every object that it overlaps"},
    {"use_prev_mem_frame", "a click sees its own frame alone"},
    {"use_stateless_refinement", "a click corrects the object that was found"},
};

MaskletConfig masklet_config(const py::dict& given) {
  const py::dict options = given.attr("copy")();
  for (const auto& [name, instead] : kLeftOut) {
    const py::object value = options.attr("pop")(name, false);
    if (value.equal(py::bool_(false))) continue;
    fail<UnsupportedError>(std::string("text_options.") + name, "False",
                           py::repr(value).cast<std::string>() + ": " + instead);
  }
  return read_options<MaskletConfig>(options, "text_options",
                                     "an option of upstream's video model");
}

MaskletExamples examples_of(const Array<double>& boxes, const Array<std::int32_t>& labels,
                            bool fractions) {
  if (boxes.ndim() != 2 || boxes.shape(1) != 4 || labels.ndim() != 1 ||
      labels.shape(0) != boxes.shape(0)) {
    fail("boxes", "(N, 4) with N labels", "other shapes");
  }
  return {.boxes = {boxes.data(), boxes.data() + boxes.size()},
          .labels = {labels.data(), labels.data() + labels.size()},
          .fractions = fractions};
}

}  // namespace

TextPrompt text_prompt(TextArguments arguments) {
  TextPrompt prompt{.texts = {},
                    .config = masklet_config(arguments.options),
                    .frame = arguments.frame,
                    .anew = arguments.anew};
  for (std::size_t i = 0; i < arguments.texts.size(); ++i) {
    prompt.texts.push_back(
        {std::move(arguments.texts[i]), {std::move(arguments.ids.at(i)), arguments.has_text}});
  }
  if (arguments.boxes && arguments.box_labels) {
    prompt.examples = examples_of(*arguments.boxes, *arguments.box_labels, arguments.fractions);
  }
  return prompt;
}

}  // namespace sam_rlx
