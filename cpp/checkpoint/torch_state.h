#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/pickle.h"
#include "checkpoint/state_dict.h"

namespace sam_rlx {

// What a persistent id of a PyTorch pickle says about a storage. The key is short, and points into
// the file.
struct TorchStorage {
  std::string_view key;
  DType dtype;  // of an untyped storage, whose tensors tell their own: bytes
  std::int64_t numel;
};
TorchStorage parse_storage(const PickleValue& persistent, const std::string& where);
// Whether a persistent id names a storage; in old files it may name the class of a module.
bool is_storage(const PickleValue& persistent);

// The bytes of a storage; at least numel elements.
using StorageLookup = std::function<std::span<const std::byte>(const TorchStorage&)>;

// A dict with tensors: the object of a file, or a dict below it.
struct NestedDict {
  static constexpr std::size_t kMaxDepth = 4;

  std::array<std::string_view, kMaxDepth> path = {};  // the keys that lead to it
  std::size_t depth = 0;
  const PickleValue* dict = nullptr;
  std::vector<std::string_view> names;  // of its tensors

  std::string key() const;  // "ema.module"; empty for the object itself
};
// Which of them is read, by its index. Not called when there is none.
using ChooseDict = std::function<std::size_t(const std::vector<NestedDict>&)>;
std::size_t choose_largest(const std::vector<NestedDict>& dicts);

// Reads the chosen dict of an object that torch.save wrote. Values that are no tensors are skipped
// and reported. UnsupportedError for a whole module, CheckpointError when the object is no dict.
StateDict read_torch_state(const PickleValue& root, const std::string& where,
                           const StorageLookup& find_storage,
                           const ChooseDict& choose = choose_largest);

}  // namespace sam_rlx
