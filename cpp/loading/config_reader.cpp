#include "loading/config_reader.h"

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {

TensorEntry required_tensor(const StateDict& state_dict, const std::string& name,
                            std::size_t rank) {
  const TensorEntry* const entry = state_dict.find(name);
  if (entry == nullptr) fail<CheckpointError>(state_dict.source, "tensor " + name, "none");
  if (entry->dims.size() > rank) {
    fail<CheckpointError>(name, std::to_string(rank) + " axes", dims_text(entry->dims));
  }
  TensorEntry padded = *entry;
  padded.dims.insert(padded.dims.begin(), rank - entry->dims.size(), 1);
  return padded;
}

std::int64_t size_of(const TensorEntry& entry, std::size_t axis) {
  const std::int64_t size = entry.dims[axis];
  if (size < 1 || size > kMaxConfigSize) {
    fail<CheckpointError>(entry.name, "sizes of 1 to " + std::to_string(kMaxConfigSize),
                          dims_text(entry.dims));
  }
  return size;
}

std::int64_t count_of(const StateDict& state_dict, const std::string& begin,
                      const std::string& end) {
  std::int64_t count = 0;
  while (state_dict.contains(begin + std::to_string(count) + end)) ++count;
  return count;
}

void check_length(const Json& json, const std::string& where, std::size_t min, std::size_t max) {
  const std::size_t length = json.array(where).size();
  if (length >= min && length <= max) return;
  fail<CheckpointError>(where, (min == max ? "" : "at most ") + std::to_string(max) + " numbers",
                        std::to_string(length));
}

std::optional<ConfigReader> config_in(const StateDict& state_dict, std::span<const KeyRow> names) {
  const auto found = state_dict.metadata.find("config");
  if (found == state_dict.metadata.end()) return std::nullopt;
  return ConfigReader(found->second, names);
}

std::string variant_in(const StateDict& state_dict) {
  const auto found = state_dict.metadata.find("variant");
  return found == state_dict.metadata.end() ? "custom" : found->second;
}

}  // namespace sam_rlx
