#include "loading/replace_fields.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"

namespace sam_rlx {
namespace {

constexpr const char* kWhere = "config";
constexpr std::string_view kFamily = "family";

// What no weight depends on.
constexpr std::string_view kReplaceable[] = {
    "binarize_mask_from_pts_for_mem_enc",
    "dynamic_multimask_stability_delta",
    "dynamic_multimask_stability_thresh",
    "dynamic_multimask_via_stability",
    "max_cond_frames_in_attn",
    "max_obj_ptrs_in_encoder",
    "memory_temporal_stride_for_eval",
    "multimask_max_pt_num",
    "multimask_min_pt_num",
    "multimask_output_for_tracking",
    "only_obj_ptrs_in_the_past_for_eval",
    "rope_theta",
    "sigmoid_bias_for_mem_enc",
    "sigmoid_scale_for_mem_enc",
    "use_signed_tpos_enc_to_obj_ptrs",
};

// Sets each field that the JSON has, and notes its name.
class FieldReplacer {
 public:
  static constexpr bool kTold = false;

  FieldReplacer(const Json& json, std::span<const KeyRow> names) : json_(json), names_(names) {}

  template <class T>
  void operator()(const Field& field, T& value) {
    const std::string name = mapped_key(names_, field.path);
    const Json* const found = json_.find(name);
    const bool replaceable = std::find(std::begin(kReplaceable), std::end(kReplaceable),
                                       field.name()) != std::end(kReplaceable);
    if (found == nullptr || !replaceable) return;
    seen_.insert(name);
    const std::string where = std::string(kWhere) + "." + name;
    ConfigReader::read(*found, where, value);
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
