// libFuzzer target: any bytes as a GGUF file.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/gguf.h"
#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const sam_rlx::GgufFile file{bytes, "fuzz"};
    const auto open_part = [&](std::int64_t, std::int64_t) { return file; };
    const sam_rlx::StateDict state_dict =
        sam_rlx::read_gguf(file, open_part, {"sam", "sam2", "sam3"});
    for (const sam_rlx::TensorEntry& entry : state_dict.tensors()) {
      std::vector<float> values(static_cast<std::size_t>(entry.numel()));
      sam_rlx::copy_as_float(state_dict, entry, values.data());
    }
  } catch (const sam_rlx::Error&) {
  }
  return 0;
}
