#include "predictors/config_reader.h"

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {

const TensorEntry& required_tensor(const StateDict& state_dict, const std::string& name,
                                   std::size_t rank) {
  const TensorEntry* const entry = state_dict.find(name);
  if (entry == nullptr) fail<CheckpointError>(state_dict.source, "tensor " + name, "none");
  if (entry->dims.size() != rank) {
    fail<CheckpointError>(name, std::to_string(rank) + " axes", dims_text(entry->dims));
  }
  return *entry;
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

std::int64_t size_in(const Json& json, const char* key, const std::string& where) {
  const std::int64_t value = json.at(key, where).integer(where + "." + key);
  if (value < 1 || value > kMaxConfigSize) {
    fail<CheckpointError>(where + "." + key, "1 to " + std::to_string(kMaxConfigSize),
                          std::to_string(value));
  }
  return value;
}

std::int64_t size_or(const Json& json, const char* key, std::int64_t fallback,
                     const std::string& where) {
  return json.find(key) == nullptr ? fallback : size_in(json, key, where);
}

std::vector<std::int64_t> sizes_in(const Json& json, const char* key, const std::string& where) {
  const std::string name = where + "." + key;
  const Json::Array& values = json.at(key, where).array(name);
  if (values.size() > kMaxListLength) {
    fail<CheckpointError>(name, "at most " + std::to_string(kMaxListLength) + " numbers",
                          std::to_string(values.size()));
  }
  std::vector<std::int64_t> sizes;
  for (const Json& value : values) {
    sizes.push_back(value.integer(name));
    if (sizes.back() < 0 || sizes.back() > kMaxConfigSize) {
      fail<CheckpointError>(name, "0 to " + std::to_string(kMaxConfigSize),
                            std::to_string(sizes.back()));
    }
  }
  return sizes;
}

void read_pixels(const Json& json, const char* key, const std::string& where,
                 std::array<float, 3>& out) {
  if (json.find(key) == nullptr) return;
  const Json::Array& values = json.at(key, where).array(where + "." + key);
  if (values.size() != out.size()) {
    fail<CheckpointError>(where + "." + key, "3 numbers", std::to_string(values.size()));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(values[i].number(where + "." + key));
  }
}

}  // namespace sam_rlx
