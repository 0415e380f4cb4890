#pragma once

#include <limits>
#include <optional>

#include "layers/fields.h"

namespace sam_rlx {

// Where two programs that run the same weights compute differently. The defaults are Meta's rules;
// transformers' are asked for when a file is loaded, never by a user's argument.
struct Rules {
  // Of the norms in each part; none: Meta's.
  std::optional<double> trunk_epsilon = {};    // the image encoder, but for its neck
  std::optional<double> prompt_epsilon = {};   // the maps of mask prompts
  std::optional<double> decoder_epsilon = {};  // SAM's two-way blocks, but for the norm at the end
  std::optional<double> text_epsilon = {};
  bool padding_label = false;  // points labelled -10 are tokens of zeros
  // SAM-HQ: masks are made of the map before the transformer, with rows and columns swapped.
  bool swapped_map = false;
  // SAM 3: levels of the neck that nothing reads are kept for those who ask for them.
  bool all_levels = false;
  bool class_token = true;  // SAM 3: prompts without boxes and points have it, too
  // SAM 3: how far from 0 the logit of the presence may be.
  double presence_limit = std::numeric_limits<double>::infinity();

  template <class V>
  void fields(V& v) {
    constexpr double kSmallest = 1e-12, kLargest = 1.0;
    v("trunk_epsilon", trunk_epsilon, kSmallest, kLargest);
    v("prompt_epsilon", prompt_epsilon, kSmallest, kLargest);
    v("decoder_epsilon", decoder_epsilon, kSmallest, kLargest);
    v("text_epsilon", text_epsilon, kSmallest, kLargest);
    v("padding_label", padding_label);
    v("swapped_map", swapped_map);
    v("all_levels", all_levels);
    v("class_token", class_token);
    v("presence_limit", presence_limit, 0, kNoLimit);
  }
};

}  // namespace sam_rlx
