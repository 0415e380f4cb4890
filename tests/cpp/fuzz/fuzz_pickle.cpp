// libFuzzer target: any bytes as the pickle of a PyTorch file whose storages are all there.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/pickle.h"
#include "checkpoint/torch_state.h"
#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kStorage = 4096;
  static const std::vector<std::byte> storage(kStorage);
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const sam_rlx::Pickle pickle = sam_rlx::read_pickle(bytes, "fuzz");
    const sam_rlx::StateDict state_dict =
        sam_rlx::read_torch_state(*pickle.root, "fuzz", [&](const sam_rlx::TorchStorage& wanted) {
          const auto bytes_wanted =
              static_cast<std::size_t>(wanted.numel * sam_rlx::dtype_bytes(wanted.dtype));
          if (bytes_wanted > kStorage) sam_rlx::fail<sam_rlx::CheckpointError>("", "less", "more");
          return std::span(storage).first(bytes_wanted);
        });
    for (const sam_rlx::TensorEntry& entry : state_dict.tensors()) {
      std::vector<float> values(static_cast<std::size_t>(entry.numel()));
      sam_rlx::copy_as_float(state_dict, entry, values.data());
    }
  } catch (const sam_rlx::Error&) {
  }
  return 0;
}
