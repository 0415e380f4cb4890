#include "bindings/text_prompt.h"

#include "bindings/config_dict.h"

namespace sam_rlx {
namespace {

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
                    .config = read_options<MaskletConfig>(arguments.options, "MaskletTracker",
                                                          "an option of upstream's video model"),
                    .frame = arguments.frame,
                    .anew = arguments.anew};
  for (std::size_t i = 0; i < arguments.texts.size(); ++i) {
    prompt.texts.push_back({std::move(arguments.texts[i]),
                            {std::move(arguments.ids.at(i)), arguments.has_text}});
  }
  if (arguments.boxes && arguments.box_labels) {
    prompt.examples = examples_of(*arguments.boxes, *arguments.box_labels, arguments.fractions);
  }
  return prompt;
}

}  // namespace sam_rlx
