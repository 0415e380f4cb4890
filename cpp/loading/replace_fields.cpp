#include "loading/replace_fields.h"

#include <set>
#include <string_view>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"

namespace sam_rlx {
namespace {

constexpr const char* kWhere = "config";
constexpr std::string_view kFamily = "family";

// Sets each setting that the JSON has, and notes its name.
class FieldReplacer {
 public:
  static constexpr bool kTold = false;

  FieldReplacer(const Json& json, std::span<const KeyRow> names) : json_(json), names_(names) {}

  template <class T>
  void operator()(const Field& field, T& value) {
    const std::string name = mapped_key(names_, field.path);
    const Json* const found = json_.find(name);
    if (found == nullptr || !field.is(kSetting)) return;
    seen_.insert(name);
    const std::string where = std::string(kWhere) + "." + name;
    read_json(*found, where, value);
    check_field<CheckpointError>(where, field, value);
  }

  void check_all_seen() const {
    for (const auto& [name, value] : json_.object(kWhere)) {
      if (name != kFamily && !seen_.contains(name)) {
        fail<UnsupportedError>(std::string(kWhere) + "." + printable(name),
                               "a setting of a model of this family", "none of this name");
      }
    }
  }

 private:
  const Json& json_;
  std::span<const KeyRow> names_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

void replace_fields(NetworkConfig& config, const Family& family, const std::string& text) {
  const Json json = Json::parse(text, kWhere);
  if (const Json* const wanted = json.find(kFamily)) {
    const std::string& name = wanted->string(kWhere);
    if (name != family.name) {
      fail<UnsupportedError>("model", "family " + printable(name), std::string(family.name));
    }
  }
  FieldReplacer replacer(json, family.python_names);
  std::visit([&](auto& sizes) { visit_fields(sizes, replacer); }, config);
  replacer.check_all_seen();
}

}  // namespace sam_rlx
