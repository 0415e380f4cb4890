#include "loading/hugging_face_config.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr HuggingFaceClass kClasses[] = {
    {"sam", "sam", "SamModel", "SamProcessor", "SamImageProcessor", "vision_config.", nullptr, "",
     false},
    {"sam_hq", "sam", "SamHQModel", "SamHQProcessor", "SamImageProcessor", "vision_config.",
     nullptr, "", false},
    {"sam2", "sam2", "Sam2Model", "Sam2Processor", "Sam2ImageProcessor", "vision_config.", nullptr,
     "", false},
    {"sam2_video", "sam2", "Sam2VideoModel", "Sam2VideoProcessor", "Sam2ImageProcessor",
     "vision_config.", nullptr, "", true},
    {"edgetam", "sam2", "EdgeTamModel", "Sam2Processor", "Sam2ImageProcessor", "vision_config.",
     nullptr, "", false},
    {"edgetam_video", "sam2", "EdgeTamVideoModel", "Sam2VideoProcessor", "Sam2ImageProcessor",
     "vision_config.", nullptr, "", true},
    {"sam3", "sam3", "Sam3Model", "Sam3Processor", "Sam3ImageProcessor", "vision_config.", "",
     nullptr, false},
    {"sam3_lite_text", "sam3", "Sam3LiteTextModel", "Sam3Processor", "Sam3ImageProcessor",
     "vision_config.", "", nullptr, false},
    {"sam3_video", "sam3", "Sam3VideoModel", "Sam3VideoProcessor", "Sam3ImageProcessor",
     "detector_config.vision_config.", "detector_config.", "tracker_config.", true},
    {"sam3_tracker", "sam3", "Sam3TrackerModel", "Sam3TrackerProcessor", "Sam3ImageProcessor",
     "vision_config.", nullptr, "", false},
    {"sam3_tracker_video", "sam3", "Sam3TrackerVideoModel", "Sam3TrackerVideoProcessor",
     "Sam3ImageProcessor", "vision_config.", nullptr, "", true},
};

bool same_number(const Json& found, double expected) {
  constexpr const char* kUnused = "";
  const bool number = !found.is_null() && !found.is_boolean() && !found.is_string() &&
                      !found.is_array() && !found.is_object();
  return number && std::abs(found.number(kUnused) - expected) <= 1e-9 * std::abs(expected);
}

// One number and a list of this number are the same: sides are written as either.
bool same_value(const Json& found, const Json& expected) {
  constexpr const char* kUnused = "";
  if (expected.is_string()) {
    return found.is_string() && found.string(kUnused) == expected.string(kUnused);
  }
  if (expected.is_boolean()) {
    return found.is_boolean() && found.boolean(kUnused) == expected.boolean(kUnused);
  }
  if (expected.is_array()) {
    const Json::Array& values = expected.array(kUnused);
    if (!found.is_array()) {
      return std::all_of(values.begin(), values.end(),
                         [&](const Json& each) { return same_value(found, each); });
    }
    const Json::Array& given = found.array(kUnused);
    return std::equal(given.begin(), given.end(), values.begin(), values.end(), same_value);
  }
  if (found.is_array()) {
    const Json::Array& given = found.array(kUnused);
    return !given.empty() && std::all_of(given.begin(), given.end(), [&](const Json& each) {
      return same_value(each, expected);
    });
  }
  return same_number(found, expected.number(kUnused));
}

std::string value_text(const Json& json) {
  constexpr const char* kUnused = "";
  constexpr std::size_t kMax = 16;
  if (json.is_string()) return quoted(std::string_view(json.string(kUnused)));
  if (json.is_boolean()) return json.boolean(kUnused) ? "true" : "false";
  if (json.is_object()) return "an object";
  if (json.is_null()) return "null";
  if (!json.is_array()) return number_text(json.number(kUnused));
  const Json::Array& values = json.array(kUnused);
  std::string text;
  for (std::size_t i = 0; i < std::min(kMax, values.size()); ++i) {
    text += (i == 0 ? "" : ", ") + value_text(values[i]);
  }
  return "[" + text + (values.size() > kMax ? ", ...]" : "]");
}

}  // namespace

std::span<const HuggingFaceClass> hugging_face_classes() { return kClasses; }

const HuggingFaceClass& hugging_face_class(std::string_view model_type) {
  for (const HuggingFaceClass& kind : kClasses) {
    if (kind.model_type == model_type) return kind;
  }
  fail<InternalError>("model_type", "a class of transformers", quoted(model_type));
}

double shortest_double(float value) {
  double scale = 1.0;
  for (int decimals = 0; decimals < 18; ++decimals, scale *= 10.0) {
    const double rounded = std::round(static_cast<double>(value) * scale) / scale;
    if (static_cast<float>(rounded) == value) return rounded;
  }
  return static_cast<double>(value);
}

// ---------------------------------------------------------------- reader

std::optional<FolderReader> FolderReader::in(const StateDict& state_dict, std::string_view family) {
  const auto found = state_dict.metadata.find("config");
  if (found == state_dict.metadata.end()) return std::nullopt;
  Json json = Json::parse(found->second, state_dict.source + ": config");
  const Json* const type = json.find("model_type");
  if (type == nullptr) return std::nullopt;
  std::vector<std::string_view> types;
  for (const HuggingFaceClass& kind : kClasses) {
    if (kind.family != family) continue;
    if (type->is_string() && type->string(kWhere) == kind.model_type) {
      return FolderReader(std::move(json), kind);
    }
    types.push_back(kind.model_type);
  }
  fail<CheckpointError>(where("model_type"),
                        alternatives(types) + ", as the tensors of " + state_dict.source + " are",
                        value_text(*type));
}

const Json* FolderReader::find(std::string_view key) const {
  const Json* json = &json_;
  while (json != nullptr) {
    const std::size_t dot = key.find('.');
    json = json->find(key.substr(0, dot));
    if (json == nullptr || json->is_null()) return nullptr;
    if (dot == std::string_view::npos) return json;
    key.remove_prefix(dot + 1);
  }
  return nullptr;
}

const Json& FolderReader::one_of_equal(const Json& json, const std::string& where) {
  if (!json.is_array()) return json;
  const Json::Array& values = json.array(where);
  if (values.empty()) fail<CheckpointError>(where, "a number", "[]");
  if (!same_value(json, values.front())) {
    fail<UnsupportedError>(where, "equal sides", value_text(json));
  }
  return values.front();
}

void FolderReader::compare(const std::string& key, const Json& expected,
                           std::string_view tensor) const {
  const Json* const found = find(key);
  if (found == nullptr || same_value(*found, expected)) return;
  if (tensor.empty()) fail<UnsupportedError>(where(key), value_text(expected), value_text(*found));
  fail<CheckpointError>(where(key),
                        value_text(expected) + ", which " + std::string(tensor) + " tells",
                        value_text(*found));
}

void FolderReader::require_none(const std::string& key) const {
  const Json* const found = find(key);
  if (found != nullptr) fail<UnsupportedError>(where(key), "none", value_text(*found));
}

void FolderReader::require_epsilon(const std::string& key, double /*metas*/) const {
  const Json* const found = find(key);
  if (found == nullptr || same_number(*found, 1e-5) || same_number(*found, 1e-6)) return;
  fail<UnsupportedError>(where(key), "1e-05 or 1e-06", value_text(*found));
}

// ---------------------------------------------------------------- writer

FolderWriter::FolderWriter(std::string_view model_type) : kind_(hugging_face_class(model_type)) {
  set("model_type", Json(std::string(model_type)));
}

Json& FolderWriter::at(std::string_view key) {
  Json* json = &json_;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    json = &json->member(key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  return json->member(key);
}

void FolderWriter::set(std::string_view key, Json value) { at(key) = std::move(value); }

void FolderWriter::copy(std::string_view from, std::string_view to) {
  Json part = at(from.substr(0, from.size() - 1));
  set(to.substr(0, to.size() - 1), std::move(part));
}

}  // namespace sam_rlx
