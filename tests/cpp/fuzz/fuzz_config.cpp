// libFuzzer target: any text as the config in the metadata of a model, whose tensors are those of a
// release. The first byte chooses the family. A network of the config's sizes is made.

#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/loader.h"
#include "core/error.h"
#include "models/sam/sam.h"
#include "models/sam2/sam2.h"
#include "models/sam3/sam3.h"
#include "predictors/sam2_config.h"
#include "predictors/sam3_config.h"
#include "predictors/sam_config.h"

namespace {

using namespace sam_rlx;

// Names and shapes of a network, without numbers.
template <class Network>
StateDict shapes_of(Network network) {
  StateDict result;
  result.source = "fuzz";
  for (const auto& [name, shape] : list_parameters(network)) {
    TensorEntry entry;
    entry.name = name;
    for (int axis = 0; axis < shape.rank(); ++axis) entry.dims.push_back(shape[axis]);
    result.add(std::move(entry));
  }
  return result;
}

sam3::Sam3Config sam3_with_tracker() {
  sam3::Sam3Config config;
  config.vision.neck.add_sam2_neck = true;
  config.tracker = sam3::tracker_heads(config.vision);
  return config;
}

template <class Network>
void check(Network network, const StateDict& state_dict) {
  check_parameters(list_parameters(network), state_dict, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static StateDict sam = shapes_of(sam::Sam(sam::released_config("vit_b")));
  static StateDict sam2 = shapes_of(sam2::Sam2(sam2::Sam2Config()));
  static StateDict sam3 = shapes_of(sam3::Sam3(sam3_with_tracker()));
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  StateDict& state_dict = data[0] % 3 == 0 ? sam : data[0] % 3 == 1 ? sam2 : sam3;
  state_dict.metadata["config"] = text;
  try {
    if (&state_dict == &sam) check(sam::Sam(sam_config_of(sam, {})), sam);
    if (&state_dict == &sam2) check(sam2::Sam2(sam2_config_of(sam2, {})), sam2);
    if (&state_dict == &sam3) check(sam3::Sam3(sam3_config_of(sam3, {})), sam3);
  } catch (const Error&) {
  }
  return 0;
}
