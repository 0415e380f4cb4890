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
//
// The same calls make the settings of a folder to write: what compares a setting sets it then.
class HuggingFaceConfig {
 public:
  static constexpr const char* kWhere = "config.json";

  // A config to write, with nothing but the type of this class.
  explicit HuggingFaceConfig(std::string_view model_type);

  // The config in the metadata if transformers wrote it, which its "model_type" tells. Raises
  // CheckpointError for a class of another family, or of none.
  static std::optional<HuggingFaceConfig> in(const StateDict& state_dict, std::string_view family);

  const HuggingFaceClass& kind() const { return kind_; }
  const Json& json() const { return json_; }

  // Sets the fields that have a row, from the path of a field to its key behind `prefix`. Several
  // rows for a field: keys of different versions. One number may be written as a list of equal
  // ones.
  template <class Config>
  void read(Config& config, std::span<const KeyRow> rows, const std::string& prefix) const {
    visit_fields(config, Reader{*this, rows, prefix});
  }
  // The reverse. Of several rows for a field all are written: each version reads its own.
  template <class Config>
  void write(Config config, std::span<const KeyRow> rows, const std::string& prefix) {
    visit_fields(config, Writer{*this, rows, prefix});
  }
  // The same for a setting that is not a field.
  template <class T>
  void read(const std::string& key, T& value) const {
    if (const Json* const found = find(key)) read_json(*found, where(key), value);
  }

  // A setting that the tensors tell too. Raises CheckpointError that names both where they differ.
  void expect(const std::string& key, const Json& told, std::string_view tensor);
  void expect(const std::string& key, std::int64_t told, std::string_view tensor) {
    expect(key, Json(told), tensor);
  }
  // A setting that has one value here, or follows from others. Raises UnsupportedError.
  void require(const std::string& key, const Json& value);
  void require(const std::string& key, std::int64_t value) { require(key, Json(value)); }
  void require(const std::string& key, const char* value) {
    require(key, Json(std::string(value)));
  }
  void require(const std::string& key, const std::vector<std::int64_t>& values);
  void require_flag(const std::string& key) { require(key, Json(true)); }
  // A part that may not be there.
  void require_none(const std::string& key);
  // Norms have Meta's epsilons; those of transformers' classes differ from them in part.
  void require_epsilon(const std::string& key, double metas);
  // Sets a setting of a config to write that is neither: which class a part is of.
  void set(std::string_view key, Json value);
  // Both keys end with a dot: all settings below one part are those of another part, too.
  void copy(std::string_view from, std::string_view to);

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

  struct Writer {
    static constexpr bool kTold = false;
    HuggingFaceConfig& config;
    std::span<const KeyRow> rows;
    const std::string& prefix;

    template <class T>
    void operator()(const Field& field, const T& value) const {
      for (const KeyRow& row : rows) {
        if (row.from == field.path) config.set(prefix + std::string(row.to), to_json(value));
      }
    }
  };

  HuggingFaceConfig(Json json, const HuggingFaceClass& kind)
      : json_(std::move(json)), kind_(kind) {}

  template <class T>
  static Json to_json(const T& value) {
    if constexpr (std::is_same_v<T, float>) {
      return Json(shortest(value));
    } else if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
      Json::Array list;
      for (const auto& each : value) list.push_back(to_json(each));
      return Json(std::move(list));
    } else {
      return Json(value);
    }
  }
  // The number with the fewest decimals that this float is nearest to: 0.98, not 0.98000001907.
  static double shortest(float value);

  static std::string where(const std::string& key) { return std::string(kWhere) + ": " + key; }
  static const Json& one_of_equal(const Json& json, const std::string& where);
  // By a key with dots; null when it is not there, or null itself.
  const Json* find(std::string_view key) const;

  Json json_;
  const HuggingFaceClass& kind_;
  bool writes_ = false;
};

}  // namespace sam_rlx
