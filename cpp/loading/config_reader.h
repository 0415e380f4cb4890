#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/json.h"
#include "checkpoint/state_dict.h"
#include "layers/fields.h"
#include "loading/key_map.h"

namespace sam_rlx {

// What the readers of model sizes share. All raise CheckpointError with the name in question: sizes
// come from files, and are checked before anything is allocated for them.

// A tensor that must be there, with so many axes; outermost ones of 1, which ggml leaves out, are
// added.
TensorEntry required_tensor(const StateDict& state_dict, const std::string& name, std::size_t rank);
// A side of a tensor: 1 to kMaxConfigSize.
std::int64_t size_of(const TensorEntry& entry, std::size_t axis);

// How many of begin + "0" + end, begin + "1" + end, ... there are.
std::int64_t count_of(const StateDict& state_dict, const std::string& begin,
                      const std::string& end);

// Values of fields. Raise CheckpointError with `where` for another type.
inline void read_json(const Json& json, const std::string& where, std::int64_t& out) {
  out = json.integer(where);
}
inline void read_json(const Json& json, const std::string& where, double& out) {
  out = json.number(where);
}
inline void read_json(const Json& json, const std::string& where, float& out) {
  out = static_cast<float>(json.number(where));
}
inline void read_json(const Json& json, const std::string& where, bool& out) {
  out = json.boolean(where);
}
void check_length(const Json& json, const std::string& where, std::size_t min, std::size_t max);
template <class T>
void read_json(const Json& json, const std::string& where, std::vector<T>& out) {
  check_length(json, where, 0, kMaxListLength);
  out.clear();
  for (const Json& each : json.array(where)) read_json(each, where, out.emplace_back());
}
template <class T, std::size_t N>
void read_json(const Json& json, const std::string& where, std::array<T, N>& out) {
  check_length(json, where, N, N);
  for (std::size_t i = 0; i < N; ++i) read_json(json.array(where)[i], where, out[i]);
}

// A config in JSON, all fields on one level: sets the fields of what it visits. Raises
// CheckpointError that names the field where one without a default is missing, has another type or
// is out of its range.
class ConfigReader {
 public:
  static constexpr bool kTold = false;

  // `names`: from the path of a field to its key; without a row the last part is the key.
  ConfigReader(const std::string& text, std::span<const KeyRow> names)
      : json_(Json::parse(text, kWhere)), names_(names) {}

  template <class T>
  void operator()(const Field& field, T& value) const {
    const std::string key = map_key(names_, field.path).value_or(std::string(field.name()));
    const std::string where = std::string(kWhere) + "." + key;
    const Json* const found = field.is(kHasDefault) ? json_.find(key) : &json_.at(key, kWhere);
    if (found == nullptr) return;
    read_json(*found, where, value);
    check_field<CheckpointError>(where, field, value);
  }

  static constexpr const char* kWhere = "metadata.config";

 private:
  Json json_;
  std::span<const KeyRow> names_;
};

// The config in the metadata of a checkpoint, if there is one, and the variant that is named there.
std::optional<ConfigReader> config_in(const StateDict& state_dict, std::span<const KeyRow> names);
std::string variant_in(const StateDict& state_dict);

}  // namespace sam_rlx
