// libFuzzer target: any bytes as a PyTorch file, new or old.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/torch_archive.h"
#include "checkpoint/torch_legacy.h"
#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const auto read : {sam_rlx::read_torch_archive, sam_rlx::read_torch_legacy}) {
    try {
      const sam_rlx::StateDict state_dict = read(bytes, "fuzz", sam_rlx::choose_largest);
      for (const sam_rlx::TensorEntry& entry : state_dict.tensors()) {
        std::vector<float> values(static_cast<std::size_t>(entry.numel()));
        sam_rlx::copy_as_float(state_dict, entry, values.data());
      }
    } catch (const sam_rlx::Error&) {
    }
  }
  return 0;
}
