#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/state_dict.h"
#include "checkpoint/torch_state.h"

namespace sam_rlx {

// What programs put around the weights of a model: dicts around the state dict ("state_dict",
// "ema.module"), and beginnings before every name ("module.", "net.sam."). Both are found by what
// is inside: the names that tell a family.
struct WrapperChoice {
  // Which model of a file that holds several is meant: the keys that lead to its dict, the
  // beginning of its names, or both, joined by dots. Empty: what is not wrapped.
  std::optional<std::string> key = {};
  // Without a key, several models are no error: the largest is taken. For those who only look.
  bool any = false;
};

// The only dict that fits, or that of the key; without a family in any of them the largest.
// CheckpointError lists them when there are several or when the key is none of them.
std::size_t choose_dict(const std::vector<NestedDict>& dicts, const WrapperChoice& choice,
                        const std::string& where);

// Takes off what stands before every name of the model, and leaves out, with a note, tensors that
// lack it. Errors are those of choose_dict.
void strip_wrappers(StateDict& state_dict, const WrapperChoice& choice);

}  // namespace sam_rlx
