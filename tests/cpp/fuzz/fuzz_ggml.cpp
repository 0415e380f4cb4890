// libFuzzer target: any bytes as a .ggml file of sam3.cpp, up to the config that its settings make.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/ggml.h"
#include "core/error.h"
#include "loading/family.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    sam_rlx::StateDict state_dict =
        sam_rlx::read_ggml(std::as_bytes(std::span(data, size)), "fuzz");
    for (const sam_rlx::TensorEntry& entry : state_dict.tensors()) {
      std::vector<float> values(static_cast<std::size_t>(entry.numel()));
      sam_rlx::copy_as_float(state_dict, entry, values.data());
    }
    const sam_rlx::Family& family = sam_rlx::to_meta_names(state_dict);
    family.config_of(state_dict, std::nullopt);
  } catch (const sam_rlx::Error&) {
  }
  return 0;
}
