#include "loading/wrappers.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/family.h"

namespace sam_rlx {
namespace {

using Prefixes = std::vector<std::string>;

// Taken off when all names have one and no family is recognized.
constexpr std::array<std::string_view, 8> kWrappers{
    "module.", "_orig_mod.", "model.", "sam.", "net.", "sam_model.", "sam2_model.", "base_model."};

// What torch.compile, FSDP and recomputed activations put before the names of the module that they
// wrap, which may be a part of the model.
constexpr std::array<std::string_view, 3> kInnerWrappers{"_orig_mod.", "_fsdp_wrapped_module.",
                                                         "_checkpoint_wrapped_module."};

// Longer names are no family's.
constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxPrefixes = 20;

bool has_one_part(std::string_view sign) { return sign.find('.') + 1 == sign.size(); }

// Where in a name a sign stands at the beginning of a part.
std::size_t find_sign(std::string_view name, std::string_view sign) {
  for (std::size_t at = name.find(sign); at != std::string_view::npos;
       at = name.find(sign, at + 1)) {
    if (at == 0 || name[at - 1] == '.') return at;
  }
  return std::string_view::npos;
}

// A name without the wrappers of parts. One of the whole model is a beginning like others.
std::string without_inner_wrappers(std::string_view name) {
  std::string result;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('.'), name.size() - 1) + 1;
    const std::string_view part = name.substr(0, end);
    const bool outer = result.empty() ||
                       std::any_of(kWrappers.begin(), kWrappers.end(),
                                   [&](std::string_view each) { return result.ends_with(each); });
    const bool wrapper =
        std::find(kInnerWrappers.begin(), kInnerWrappers.end(), part) != kInnerWrappers.end();
    if (outer || !wrapper) result += part;
    name.remove_prefix(end);
  }
  return result;
}

// What stands before the names of a family in `name`, for every family whose sign is in it. Signs
// of one part ("detector.") are words that others use too: they count at the beginning alone, and
// are no part of what stands before another sign.
void add_prefixes(std::string_view name, std::set<std::string, std::less<>>& found) {
  for (const Family* const family : families()) {
    for (const Sign& sign : family->signs) {
      if (has_one_part(sign.begin)) {
        if (name.starts_with(sign.begin)) found.emplace();
        continue;
      }
      const std::size_t at = find_sign(name, sign.begin);
      if (at == std::string_view::npos) continue;
      std::string_view prefix = name.substr(0, at);
      for (const Sign& other : family->signs) {
        if (!has_one_part(other.begin) || !prefix.ends_with(other.begin)) continue;
        const std::size_t rest = prefix.size() - other.begin.size();
        if (rest == 0 || prefix[rest - 1] == '.') prefix.remove_suffix(other.begin.size());
      }
      found.emplace(prefix);
    }
  }
}

// What stands before the names of each model; "" for plain names. Models inside of others are
// theirs.
template <class Names>
Prefixes model_prefixes(const Names& names) {
  std::set<std::string, std::less<>> found;
  for (const std::string_view name : names) {
    if (name.size() > kMaxName || found.size() == kMaxPrefixes) continue;
    add_prefixes(without_inner_wrappers(name), found);
  }
  Prefixes result;  // in order, so that a beginning comes before what it begins
  for (const std::string& prefix : found) {
    const bool inside = std::any_of(result.begin(), result.end(), [&](const std::string& outer) {
      return prefix.starts_with(outer);
    });
    if (!inside) result.push_back(prefix);
  }
  return result;
}

// "state_dict" and "net.sam." -> "state_dict.net.sam".
std::string label(const std::string& key, std::string_view prefix) {
  if (!prefix.empty()) prefix.remove_suffix(1);
  std::string text = key;
  text.append(key.empty() || prefix.empty() ? "" : ".").append(prefix);
  return text;
}

std::string labels_text(std::vector<std::string> labels) {
  constexpr std::size_t kMaxLabels = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(labels.size(), kMaxLabels); ++i) {
    text.append(i == 0 ? "" : ", ")
        .append(labels[i].empty() ? "\"\" (the outermost)" : sam_rlx::quoted(labels[i]));
  }
  return labels.size() > kMaxLabels
             ? text + " and " + std::to_string(labels.size() - kMaxLabels) + " more"
             : text;
}

[[noreturn]] void refuse_several(const std::vector<std::string>& labels, const std::string& where) {
  fail<CheckpointError>(where, "one model, or key= (on the command line --key) for one of several",
                        "models under " + labels_text(labels));
}

[[noreturn]] void refuse_key(const std::string& key, const std::vector<std::string>& labels,
                             const std::string& where) {
  fail<CheckpointError>(where + ": key " + sam_rlx::quoted(key),
                        labels.empty() ? "no key: the file holds no tensors"
                                       : "one of the keys " + labels_text(labels),
                        "none of them");
}

bool has_all(const StateDict& state_dict, std::string_view prefix) {
  const auto& tensors = state_dict.tensors();
  return !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [&](const TensorEntry& entry) {
           return entry.name.size() > prefix.size() && entry.name.starts_with(prefix);
         });
}

// Takes a beginning off and leaves out what lacks it.
void strip(StateDict& state_dict, std::string_view prefix) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    const bool inside = entry.name.size() > prefix.size() && entry.name.starts_with(prefix);
    names.push_back(inside ? entry.name.substr(prefix.size()) : "");
    if (!inside) state_dict.skip(entry.name, "not below " + quoted(prefix));
  }
  state_dict.rename(names);
  state_dict.origin.prefix.append(prefix);
}

void strip_known(StateDict& state_dict) {
  constexpr int kMaxWrappers = 8;
  for (int i = 0; i < kMaxWrappers; ++i) {
    const auto found =
        std::find_if(kWrappers.begin(), kWrappers.end(),
                     [&](std::string_view prefix) { return has_all(state_dict, prefix); });
    if (found == kWrappers.end()) return;
    strip(state_dict, *found);
  }
}

std::vector<std::string_view> names_of(const StateDict& state_dict) {
  std::vector<std::string_view> names;
  for (const TensorEntry& entry : state_dict.tensors()) names.push_back(entry.name);
  return names;
}

}  // namespace

std::size_t choose_dict(const std::vector<NestedDict>& dicts, const WrapperChoice& choice,
                        const std::string& where) {
  std::vector<std::size_t> fitting;
  std::vector<std::string> labels;
  std::optional<std::size_t> asked;
  for (std::size_t i = 0; i < dicts.size(); ++i) {
    const Prefixes prefixes = model_prefixes(dicts[i].names);
    if (!prefixes.empty()) fitting.push_back(i);
    for (const std::string& prefix : prefixes) {
      labels.push_back(label(dicts[i].key(), prefix));
      if (choice.key == labels.back() && !asked) asked = i;
    }
  }
  if (choice.key) {
    if (asked) return *asked;
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < dicts.size(); ++i) {
      keys.push_back(dicts[i].key());
      if (keys.back() == *choice.key) return i;
    }
    refuse_key(*choice.key, labels.empty() ? keys : labels, where);
  }
  if (fitting.empty()) return choose_largest(dicts);
  if (fitting.size() > 1 && !choice.any) refuse_several(labels, where);
  return *std::max_element(fitting.begin(), fitting.end(), [&](std::size_t a, std::size_t b) {
    return dicts[a].names.size() < dicts[b].names.size();
  });
}

void strip_wrappers(StateDict& state_dict, const WrapperChoice& choice) {
  std::vector<std::string> plain;
  bool wrapped = false;
  for (const TensorEntry& entry : state_dict.tensors()) {
    plain.push_back(without_inner_wrappers(entry.name));
    wrapped = wrapped || plain.back() != entry.name;
  }
  if (wrapped) state_dict.rename(plain);
  const Prefixes prefixes = model_prefixes(names_of(state_dict));
  std::vector<std::string> labels;
  for (const std::string& prefix : prefixes) {
    labels.push_back(label(state_dict.origin.key, prefix));
    if (choice.key == labels.back()) {
      strip(state_dict, prefix);
      return;
    }
  }
  if (choice.key && *choice.key != state_dict.origin.key) {
    if (labels.empty()) labels = state_dict.origin.keys;
    refuse_key(*choice.key, labels, state_dict.source);
  }
  if (prefixes.size() > 1 && !choice.any) refuse_several(labels, state_dict.source);
  if (prefixes.empty()) {
    strip_known(state_dict);
  } else if (!prefixes.front().empty()) {
    strip(state_dict, prefixes.front());
  }
}

}  // namespace sam_rlx
