#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/json.h"
#include "checkpoint/state_dict.h"
#include "layers/fields.h"
#include "loading/config_reader.h"
#include "loading/key_map.h"

namespace sam_rlx {

// A class of transformers whose folders load, and where its config.json has the settings of each
// part: what stands before their keys, null for a part that it has not.
struct HuggingFaceClass {
  std::string_view model_type;
  std::string_view family;
  const char* vision;
  const char* detector;  // of SAM 3: texts and examples
  const char* heads;     // prompts, mask decoder and memory
  bool memory;           // follows objects through a video
};

// The settings of a folder that transformers wrote: its config.json. What is not there, or null, is
// transformers' default, which is that of the release; null stands for a default there too.
class HuggingFaceConfig {
 public:
  static constexpr const char* kWhere = "config.json";

  // The config in the metadata if transformers wrote it, which its "model_type" tells. Raises
  // CheckpointError for a class of another family, or of none.
  static std::optional<HuggingFaceConfig> in(const StateDict& state_dict, std::string_view family);

  const HuggingFaceClass& kind() const { return kind_; }

  // Sets the fields that have a row, from the path of a field to its key behind `prefix`. Several
  // rows for a field: keys of different versions. One number may be written as a list of equal
  // ones.
  template <class Config>
  void read(Config& config, std::span<const KeyRow> rows, const std::string& prefix) const {
    visit_fields(config, Reader{*this, rows, prefix});
  }
  // The same for a setting that is not a field.
  template <class T>
  void read(const std::string& key, T& value) const {
    if (const Json* const found = find(key)) read_json(*found, where(key), value);
  }

  // A setting that the tensors tell too. Raises CheckpointError that names both where they differ.
  void expect(const std::string& key, const Json& told, std::string_view tensor) const;
  void expect(const std::string& key, std::int64_t told, std::string_view tensor) const {
    expect(key, Json(told), tensor);
  }
  // A setting that has one value here, or follows from others. Raises UnsupportedError.
  void require(const std::string& key, const Json& value) const;
  void require(const std::string& key, std::int64_t value) const { require(key, Json(value)); }
  void require(const std::string& key, const char* value) const {
    require(key, Json(std::string(value)));
  }
  void require(const std::string& key, const std::vector<std::int64_t>& values) const;
  void require_flag(const std::string& key) const { require(key, Json(true)); }
  // Norms have Meta's epsilons; those of transformers' classes differ from them in part.
  void require_epsilon(const std::string& key) const;

 private:
  struct Reader {
    static constexpr bool kTold = false;
    const HuggingFaceConfig& config;
    std::span<const KeyRow> rows;
    const std::string& prefix;

    template <class T>
    void operator()(const Field& field, T& value) const {
      for (const KeyRow& row : rows) {
        if (row.from != field.path) continue;
        const std::string key = prefix + std::string(row.to);
        const Json* found = config.find(key);
        if (found == nullptr) continue;
        if constexpr (std::is_same_v<T, std::int64_t>) found = &one_of_equal(*found, where(key));
        read_json(*found, where(key), value);
        check_field<CheckpointError>(where(key), field, value);
      }
    }
  };

  HuggingFaceConfig(Json json, const HuggingFaceClass& kind)
      : json_(std::move(json)), kind_(kind) {}

  static std::string where(const std::string& key) { return std::string(kWhere) + ": " + key; }
  static const Json& one_of_equal(const Json& json, const std::string& where);
  // By a key with dots; null when it is not there, or null itself.
  const Json* find(std::string_view key) const;

  Json json_;
  const HuggingFaceClass& kind_;
};

}  // namespace sam_rlx
