#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "checkpoint/json.h"
#include "checkpoint/state_dict.h"
#include "layers/fields.h"
#include "loading/config_reader.h"
#include "loading/key_map.h"

namespace sam_rlx {

// The number with the fewest decimals that this float is nearest to: 0.98, not 0.98000001907.
double shortest_double(float value);

// A class of transformers whose folders load, its processor and what makes pixels of images there,
// and where its config.json has the settings of each part: what stands before their keys, null for
// a part that it has not.
struct HuggingFaceClass {
  std::string_view model_type;
  std::string_view family;
  std::string_view name, processor, image_processor;
  const char* vision;
  const char* detector;  // of SAM 3: texts and examples
  const char* heads;     // prompts, mask decoder and memory
  bool memory;           // follows objects through a video
};
std::span<const HuggingFaceClass> hugging_face_classes();
const HuggingFaceClass& hugging_face_class(std::string_view model_type);

// The settings of a folder, config.json, are listed once for each family by a template that is
// called with a reader or with a writer:
//
//   template <class Io>
//   void folder_settings(Io& io, Config& config) {
//     io.expect("hidden_size", config.embed_dim, "patch_embed.weight");  // a tensor tells it, too
//     io.fields(config, kRows, "vision_config.");  // fields that have a row
//     io.value("mlp_ratio", config.mlp_ratio);     // one value
//     io.require("hidden_act", "gelu");            // has one value here, or follows from others
//   }
//
// For the reader, `config` has what the tensors tell.

template <class T>
Json folder_json(const T& value) {
  if constexpr (std::is_same_v<T, Json> || std::is_same_v<T, bool> || std::is_same_v<T, double> ||
                std::is_same_v<T, std::string>) {
    return Json(value);
  } else if constexpr (std::is_integral_v<T>) {
    return Json(std::int64_t{value});
  } else if constexpr (std::is_same_v<T, float>) {
    return Json(shortest_double(value));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return Json(std::string(std::string_view(value)));
  } else {
    Json::Array list;
    for (const auto& each : value) list.push_back(folder_json(each));
    return Json(std::move(list));
  }
}

// Reads a folder that transformers wrote. What is not there, or null, is transformers' default,
// which is that of the release; null stands for a default there too.
class FolderReader {
 public:
  static constexpr const char* kWhere = "config.json";

  // The config in the metadata if transformers wrote it, which its "model_type" tells. Raises
  // CheckpointError for a class of another family, or of none.
  static std::optional<FolderReader> in(const StateDict& state_dict, std::string_view family);

  const HuggingFaceClass& kind() const { return kind_; }

  // Sets the fields that have a row, from the path of a field to its key behind `prefix`. Several
  // rows for a field: keys of different versions. One number may be written as a list of equal
  // ones.
  template <class Config>
  void fields(Config& config, std::span<const KeyRow> rows, const std::string& prefix) const {
    visit_fields(config, Setter{*this, rows, prefix});
  }
  template <class T>
  void value(const std::string& key, T& value) const {
    if (const Json* const found = find(key)) read_json(*found, where(key), value);
  }
  // Raises CheckpointError that names the key and the tensor where they differ.
  template <class T>
  void expect(const std::string& key, const T& told, std::string_view tensor) const {
    compare(key, folder_json(told), tensor);
  }
  // Raises UnsupportedError for another value.
  template <class T>
  void require(const std::string& key, const T& value) const {
    compare(key, folder_json(value), {});
  }
  // A part that may not be there.
  void require_none(const std::string& key) const;
  // Norms have Meta's epsilons; those of transformers' classes differ from them in part.
  void require_epsilon(const std::string& key, double metas) const;
  // Ranges of all fields, before others are computed of them.
  template <class Config>
  void check(Config& config) const {
    visit_fields(config, CheckFields{kWhere});
  }

 private:
  struct Setter {
    static constexpr bool kTold = false;
    const FolderReader& folder;
    std::span<const KeyRow> rows;
    const std::string& prefix;

    template <class T>
    void operator()(const Field& field, T& value) const {
      for (const KeyRow& row : rows) {
        if (row.from != field.path) continue;
        const std::string key = prefix + std::string(row.to);
        const Json* found = folder.find(key);
        if (found == nullptr) continue;
        if constexpr (std::is_same_v<T, std::int64_t>) found = &one_of_equal(*found, where(key));
        read_json(*found, where(key), value);
        check_field<CheckpointError>(where(key), field, value);
      }
    }
  };

  FolderReader(Json json, const HuggingFaceClass& kind) : json_(std::move(json)), kind_(kind) {}

  // `tensor`: that tells the value; empty: there is no other.
  void compare(const std::string& key, const Json& expected, std::string_view tensor) const;
  static std::string where(const std::string& key) { return std::string(kWhere) + ": " + key; }
  static const Json& one_of_equal(const Json& json, const std::string& where);
  // By a key with dots; null when it is not there, or null itself.
  const Json* find(std::string_view key) const;

  Json json_;
  const HuggingFaceClass& kind_;
};

// Makes the settings of a folder to write.
class FolderWriter {
 public:
  explicit FolderWriter(std::string_view model_type);

  const HuggingFaceClass& kind() const { return kind_; }
  const Json& json() const { return json_; }

  // Of several rows for a field all are written: each version of transformers reads its own.
  template <class Config>
  void fields(Config& config, std::span<const KeyRow> rows, const std::string& prefix) {
    visit_fields(config, Getter{*this, rows, prefix});
  }
  template <class T>
  void value(const std::string& key, const T& value) {
    set(key, folder_json(value));
  }
  template <class T>
  void expect(const std::string& key, const T& told, std::string_view /*tensor*/) {
    set(key, folder_json(told));
  }
  template <class T>
  void require(const std::string& key, const T& value) {
    set(key, folder_json(value));
  }
  void require_none(const std::string& /*key*/) {}
  void require_epsilon(const std::string& key, double metas) { set(key, Json(metas)); }
  template <class Config>
  void check(Config& /*config*/) {}

  void set(std::string_view key, Json value);
  // Both keys end with a dot: all settings below one part are those of another part, too.
  void copy(std::string_view from, std::string_view to);

 private:
  struct Getter {
    static constexpr bool kTold = false;
    FolderWriter& folder;
    std::span<const KeyRow> rows;
    const std::string& prefix;

    template <class T>
    void operator()(const Field& field, const T& value) const {
      for (const KeyRow& row : rows) {
        if (row.from == field.path) folder.set(prefix + std::string(row.to), folder_json(value));
      }
    }
  };

  Json& at(std::string_view key);

  Json json_;
  const HuggingFaceClass& kind_;
};

}  // namespace sam_rlx
