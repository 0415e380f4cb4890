#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bindings/numpy.h"
#include "predictors/video/video_session.h"

namespace sam_rlx {

// Texts as arguments.
struct TextArguments {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int64_t>> ids;  // of the tokenizer
  bool has_text;                               // False: boxes alone say what is meant
  py::dict options;                            // of MaskletConfig
  std::optional<std::int64_t> frame;
  std::optional<Array<double>> boxes;  // (N, 4)
  std::optional<Array<std::int32_t>> box_labels;
  bool fractions, anew;
};

// Raises InvalidArgument for boxes of other shapes, or an option that there is not.
TextPrompt text_prompt(TextArguments arguments);

}  // namespace sam_rlx
