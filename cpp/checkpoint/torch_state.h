#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/pickle.h"
#include "checkpoint/state_dict.h"

namespace sam_rlx {

// True for the globals that a PyTorch state dict may name.
bool torch_global_allowed(std::string_view global);

// What a persistent id of a PyTorch pickle says about a storage. The key is short, and points into
// the file.
struct TorchStorage {
  std::string_view key;
  DType dtype;
  std::int64_t numel;
};
TorchStorage parse_storage(const PickleValue& persistent, const std::string& where);

// The bytes of a storage; at least numel elements.
using StorageLookup = std::function<std::span<const std::byte>(const TorchStorage&)>;

// Finds the state dict in an object that torch.save wrote: the object itself, or what it holds
// under "model" or "state_dict". Values that are no tensors are skipped and reported.
StateDict read_torch_state(const PickleValue& root, const std::string& where,
                           const StorageLookup& find_storage);

}  // namespace sam_rlx
