#include "loading/family.h"

#include <algorithm>
#include <array>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/relatives.h"
#include "loading/sam3cpp.h"

namespace sam_rlx {
namespace {

// Image encoders alone, by a name of theirs that may stand behind others. That of SAM in
// transformers has the names of whole models: Family::decoders tells.
struct Encoder {
  std::string_view part;
  std::string_view name;
};

constexpr Encoder kEncoders[] = {
    {"backbone.pos_embed_window", "Sam2VisionModel"},
    {"backbone.embeddings.position_embeddings", "Sam3VisionModel"},
    {"encoder.blocks.0.attn.rel_pos_h", "SAM's, in Cellpose-SAM"},
    {"blocks.0.attn.rel_pos_h", "SAM's, as timm's samvit"},
    {"pos_embed_window", "SAM 2's, as timm's sam2_hiera"},
};

[[noreturn]] void refuse_encoder(const StateDict& state_dict, std::string_view which) {
  fail<UnsupportedError>(state_dict.source, "a whole model",
                         "an image encoder alone (" + std::string(which) +
                             "): prompt encoder and mask decoder are missing");
}

std::string some_names(const StateDict& state_dict) {
  constexpr std::size_t kMax = 3;
  const auto& tensors = state_dict.tensors();
  if (tensors.empty()) {
    const std::vector<std::string> skipped = state_dict.skipped();
    return skipped.empty() ? "no tensors" : "no tensors, but " + skipped.front();
  }
  std::string text = std::to_string(tensors.size()) + " tensors:";
  for (std::size_t i = 0; i < std::min(kMax, tensors.size()); ++i) {
    text += (i == 0 ? " " : ", ") + printable(tensors[i].name);
  }
  return tensors.size() > kMax ? text + ", ..." : text;
}

template <class Test>
bool any_name(const StateDict& state_dict, const Test& test) {
  const auto& tensors = state_dict.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const TensorEntry& entry) { return test(entry.name); });
}

}  // namespace

std::span<const Family* const> families() {
  static const std::array kFamilies{&sam_family(), &sam2_family(), &sam3_family()};
  return kFamilies;
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const Family* const family : families()) names.push_back(family->name);
  return names;
}

std::string family_titles() {
  std::vector<std::string_view> titles;
  for (const Family* const family : families()) titles.push_back(family->title);
  return alternatives(titles);
}

const Family& family_named(std::string_view name) {
  for (const Family* const family : families()) {
    if (family->name == name) return *family;
  }
  fail<UnsupportedError>("family", alternatives(family_names()), printable(name));
}

Release release_or_last(const Family& family, std::string_view variant) {
  const std::vector<Release> rows = family.releases();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Release& row) { return row.variant == variant; });
  return found == rows.end() ? rows.back() : *found;
}

const Family& to_meta_names(StateDict& state_dict) {
  refuse_sam3cpp_relatives(state_dict);
  refuse_relatives(state_dict);
  for (const Family* const family : families()) {
    for (const Sign& sign : family->signs) {
      if (any_name(state_dict,
                   [&](const std::string& name) { return name.starts_with(sign.begin); })) {
        family->to_meta(state_dict, sign.dialect);
        return *family;
      }
    }
  }
  for (const Encoder& encoder : kEncoders) {
    const auto has_part = [&](const std::string& name) {
      const std::size_t at = name.find(encoder.part);
      return at == 0 || (at != std::string::npos && name[at - 1] == '.');
    };
    if (any_name(state_dict, has_part)) refuse_encoder(state_dict, encoder.name);
  }
  fail<CheckpointError>(state_dict.source, "the tensors of " + family_titles(),
                        some_names(state_dict));
}

void check_whole(const StateDict& state_dict, const Family& family) {
  const auto has = [&](std::string_view begin) {
    return any_name(state_dict, [&](const std::string& name) { return name.starts_with(begin); });
  };
  if (std::none_of(family.decoders.begin(), family.decoders.end(), has)) {
    refuse_encoder(state_dict, std::string(family.title) + "'s");
  }
}

// The first row that fits is taken, in both directions.
std::string to_short_name(std::string_view family, std::string_view meta_name) {
  return mapped_key(reversed(family_named(family).short_names), meta_name);
}

std::string from_short_name(std::string_view family, std::string_view short_name) {
  return mapped_key(family_named(family).short_names, short_name);
}

}  // namespace sam_rlx
