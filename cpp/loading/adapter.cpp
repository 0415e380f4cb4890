#include "loading/adapter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>

#include "checkpoint/byte_reader.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/choose_checkpoint.h"
#include "loading/open.h"

namespace sam_rlx {
namespace {

namespace fs = std::filesystem;

// ---------------------------------------------------------------- adapter_config.json of PEFT

// Fields with which weights plus products are not what the adapter computes, unless they are
// absent, null, false or empty.
struct RefusedField {
  std::string_view name, what;
};
constexpr RefusedField kRefusedFields[] = {
    {"alora_invocation_tokens", "an activated LoRA, which is switched on and off by tokens"},
    {"arrow_config", "a router between several adapters"},
    {"kasa_config", "KaSA, which changes the weights of the model"},
    {"layer_replication", "layers that are used several times"},
    {"megatron_config", "layers of Megatron"},
    {"monteclora_config", "MonteCLoRA, which draws random numbers"},
    {"target_parameters", "products for parameters that are no layers"},
    {"trainable_token_indices", "single rows of an embedding"},
    {"use_bdlora", "BD-LoRA, whose matrices are made of blocks"},
    {"use_qalora", "QALoRA, whose input is pooled"},
};
// Switches that are known, beside lora_bias and those above.
constexpr std::string_view kKnownSwitches[] = {"use_dora", "use_rslora"};
// Ways to begin a training that leave the weights of the model as they are.
constexpr std::string_view kPlainBeginnings[] = {"gaussian", "eva", "orthogonal", "mica"};

bool is_unset(const Json& value) {
  constexpr const char* kUnused = "";
  return value.is_null() || (value.is_boolean() && !value.boolean(kUnused)) ||
         (value.is_array() && value.array(kUnused).empty()) ||
         (value.is_object() && value.object(kUnused).empty());
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// A key of alpha_pattern. PEFT takes it for a regular expression that the end of a module's name
// has to fit, from the beginning of a part on; those of plain characters are understood.
class ModulePattern {
 public:
  ModulePattern(const std::string& key, const std::string& where) {
    std::string_view rest = key;
    whole_ = rest.starts_with("^");
    if (whole_) rest.remove_prefix(1);
    if (rest.ends_with("$")) rest.remove_suffix(1);
    while (!rest.empty()) {
      const bool literal_dot = rest.starts_with("\\.");
      if (literal_dot) rest.remove_prefix(1);
      if (!is_word(rest.front()) && rest.front() != '.') {
        fail<UnsupportedError>(where + ": alpha_pattern", "names of modules",
                               "the expression " + sam_rlx::quoted(key));
      }
      text_ += rest.front();
      any_.push_back(rest.front() == '.' && !literal_dot);
      rest.remove_prefix(1);
    }
  }

  bool fits(std::string_view module) const {
    if (module.size() < text_.size()) return false;
    const std::size_t begin = module.size() - text_.size();
    if (begin > 0 && (whole_ || module[begin - 1] != '.')) return false;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (!any_[i] && module[begin + i] != text_[i]) return false;
    }
    return true;
  }

 private:
  bool whole_ = false;
  std::string text_;
  std::vector<bool> any_;  // the dots, which any character fits
};

// What the arithmetic needs of PEFT's settings.
class PeftConfig {
 public:
  explicit PeftConfig(const fs::path& path) : where_(printable(utf8_of(path))) {
    const MappedFile file(path);
    const Json json = Json::parse(as_text(file.bytes()), where_);
    const Json* const type = json.find("peft_type");
    const std::string kind = type == nullptr ? "none" : type->string(where_ + ": peft_type");
    if (kind != "LORA") fail<UnsupportedError>(where_ + ": peft_type", "LORA", printable(kind));
    for (const RefusedField& field : kRefusedFields) {
      const Json* const value = json.find(field.name);
      if (value != nullptr && !is_unset(*value)) {
        fail<UnsupportedError>(where_ + ": " + std::string(field.name), "none",
                               std::string(field.what));
      }
    }
    for (const auto& [name, value] : json.object(where_)) refuse_switch(name, value);
    refuse_beginning(json);
    alpha_ = json.at("lora_alpha", where_).number(where_ + ": lora_alpha");
    root_ = flag(json, "use_rslora");
    dora_ = flag(json, "use_dora");
    read_patterns(json);
  }

  bool dora() const { return dora_; }

  double scale(std::string_view module, std::int64_t rank) const {
    double alpha = alpha_;
    for (const auto& [pattern, value] : patterns_) {
      if (!pattern.fits(module)) continue;
      alpha = value;
      break;
    }
    const auto r = static_cast<double>(rank);
    return alpha / (root_ ? std::sqrt(r) : r);
  }

 private:
  bool flag(const Json& json, std::string_view name) const {
    const Json* const value = json.find(name);
    return value != nullptr && !value->is_null() &&
           value->boolean(where_ + ": " + std::string(name));
  }

  // A switch of a later PEFT may change what is computed.
  void refuse_switch(const std::string& name, const Json& value) const {
    if (!name.starts_with("use_") || is_unset(value)) return;
    const auto known = std::find(std::begin(kKnownSwitches), std::end(kKnownSwitches), name);
    if (known == std::end(kKnownSwitches)) {
      fail<UnsupportedError>(where_ + ": " + printable(name), "use_dora or use_rslora",
                             "a kind of LoRA that is "
                             "unknown here");
    }
  }

  void refuse_beginning(const Json& json) const {
    const Json* const value = json.find("init_lora_weights");
    if (value == nullptr || !value->is_string()) return;
    const std::string& name = value->string(where_);
    if (std::find(std::begin(kPlainBeginnings), std::end(kPlainBeginnings), name) !=
        std::end(kPlainBeginnings)) {
      return;
    }
    fail<UnsupportedError>(where_ + ": init_lora_weights",
                           "a training that begins with the weights of the model",
                           printable(name) +
                               ", which changes them: save it with PEFT's "
                               "path_initial_model_for_weight_conversion, or merge it there");
  }

  void read_patterns(const Json& json) {
    const Json* const patterns = json.find("alpha_pattern");
    if (patterns == nullptr || is_unset(*patterns)) return;
    for (const auto& [key, value] : patterns->object(where_ + ": alpha_pattern")) {
      patterns_.emplace_back(ModulePattern(key, where_),
                             value.number(where_ + ": alpha_pattern: " + printable(key)));
    }
  }

  std::string where_;
  double alpha_ = 1.0;
  bool root_ = false, dora_ = false;
  std::vector<std::pair<ModulePattern, double>> patterns_;  // the first that fits counts
};

// ---------------------------------------------------------------- tensors of PEFT

// The pieces of one layer while they are gathered.
struct Pieces {
  const TensorEntry *a = nullptr, *b = nullptr, *bias = nullptr, *magnitude = nullptr;
  bool embedding = false;
};

struct PeftPart {
  std::string_view mark;
  const TensorEntry* Pieces::* piece;
  bool embedding;
};
constexpr PeftPart kPeftParts[] = {
    {".lora_A", &Pieces::a, false},
    {".lora_B", &Pieces::b, false},
    {".lora_embedding_A", &Pieces::a, true},
    {".lora_embedding_B", &Pieces::b, true},
    {".lora_magnitude_vector", &Pieces::magnitude, false},
};

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part)) {
    text.erase(at, part.size());
  }
  return text;
}

// PEFT's name for a tensor of the model: without its own wrapper, and what it puts around layers.
std::string peft_model_name(std::string_view name) {
  constexpr std::string_view kWrapper = "base_model.model.";
  if (name.starts_with(kWrapper)) name.remove_prefix(kWrapper.size());
  return without(std::string(name), ".base_layer");
}

// "", ".weight" or ".bias" behind a mark; between them the adapter's name, where a whole state dict
// was saved.
struct PeftTail {
  std::string_view adapter, leaf;
};
PeftTail tail_of(std::string_view tail) {
  constexpr std::string_view kLeaves[] = {"weight", "bias"};
  if (tail.starts_with(".")) tail.remove_prefix(1);
  for (const std::string_view leaf : kLeaves) {
    if (tail == leaf) return {"", leaf};
    if (tail.size() > leaf.size() && tail.ends_with(leaf) &&
        tail[tail.size() - leaf.size() - 1] == '.') {
      return {tail.substr(0, tail.size() - leaf.size() - 1), leaf};
    }
  }
  return {tail, "weight"};
}

void require_pair(const Adapter& adapter, const std::string& module, const Pieces& pieces) {
  if (pieces.a != nullptr && pieces.b != nullptr) return;
  fail<CheckpointError>(adapter.file.source + ": " + printable(module),
                        "both matrices of the adapter",
                        pieces.a == nullptr && pieces.b == nullptr
                            ? "none"
                            : std::string("only ") + (pieces.a != nullptr ? "A" : "B"));
}

std::int64_t rank_of(const Adapter& adapter, const TensorEntry& a) {
  if (a.dims.size() < 2 || a.dims[0] < 1) {
    fail<CheckpointError>(adapter.file.source + ": " + printable(a.name),
                          "a matrix of rank 1 or more", dims_text(a.dims));
  }
  return a.dims[0];
}

// Which of the pieces of a layer a tensor is; null for a tensor of the model.
const PeftPart* peft_part(const std::string& where, std::string_view rest) {
  if (rest.empty()) return nullptr;
  const auto part =
      std::find_if(std::begin(kPeftParts), std::end(kPeftParts), [&](const PeftPart& each) {
        return rest == each.mark || rest.starts_with(std::string(each.mark) + ".");
      });
  if (part == std::end(kPeftParts)) {
    fail<UnsupportedError>(where, "lora_A, lora_B or lora_magnitude_vector",
                           "another kind of adapter");
  }
  return &*part;
}

// Gathers the pieces by layers; all else goes to Adapter::whole.
std::map<std::string, Pieces> gather_peft(Adapter& adapter) {
  std::map<std::string, Pieces> layers;
  std::optional<std::string_view> one_adapter;
  for (const TensorEntry& entry : adapter.file.tensors()) {
    const std::string_view name = entry.name;
    const std::size_t at = std::min(name.find(".lora_"), name.size());
    const std::string where = adapter.file.source + ": " + printable(name);
    const PeftPart* const part = peft_part(where, name.substr(at));
    if (part == nullptr) {
      adapter.whole.emplace_back(peft_model_name(name), entry);
      continue;
    }
    const PeftTail tail = tail_of(name.substr(at + part->mark.size()));
    if (one_adapter.value_or(tail.adapter) != tail.adapter) {
      fail<UnsupportedError>(
          where, "one adapter",
          "two: " + sam_rlx::quoted(*one_adapter) + " and " + sam_rlx::quoted(tail.adapter));
    }
    one_adapter = tail.adapter;
    Pieces& pieces = layers[peft_model_name(name.substr(0, at))];
    const bool bias = tail.leaf == "bias";
    if (bias && part->piece != &Pieces::b) fail<UnsupportedError>(where, "no bias", "one");
    const TensorEntry*& piece = bias ? pieces.bias : pieces.*(part->piece);
    if (piece != nullptr) fail<UnsupportedError>(where, "one tensor of this kind", "two");
    piece = &entry;
    pieces.embedding = pieces.embedding || part->embedding;
  }
  return layers;
}

void read_peft(Adapter& adapter, const PeftConfig& config) {
  for (const auto& [module, pieces] : gather_peft(adapter)) {
    require_pair(adapter, module, pieces);
    const std::string where = adapter.file.source + ": " + printable(module);
    if (config.dora() != (pieces.magnitude != nullptr)) {
      fail<CheckpointError>(where,
                            config.dora() ? "lora_magnitude_vector, as use_dora says"
                                          : "no lora_magnitude_vector, as use_dora is not set",
                            config.dora() ? "none" : "one");
    }
    if (pieces.embedding && config.dora()) {
      fail<UnsupportedError>(where, "LoRA of an embedding", "DoRA of one");
    }
    Adapter::Update update{.module = module, .a = *pieces.a, .b = *pieces.b};
    update.scale = config.scale(module, rank_of(adapter, update.a));
    update.embedding = pieces.embedding;
    if (pieces.bias != nullptr) update.bias = *pieces.bias;
    if (pieces.magnitude != nullptr) update.magnitude = *pieces.magnitude;
    adapter.updates.push_back(std::move(update));
  }
}

// ---------------------------------------------------------------- files that count blocks

// Lets a file of SAMed have "w_a_000" and "w_b_000": queries of the first block, "001" its values,
// and so on. Their product is added as it is.
constexpr std::string_view kCountedA = "w_a_", kCountedB = "w_b_";

std::optional<std::int64_t> counted(std::string_view name, std::string_view begin) {
  constexpr std::size_t kDigits = 3;
  if (name.size() != begin.size() + kDigits || !name.starts_with(begin)) return std::nullopt;
  std::int64_t number = 0;
  for (const char c : name.substr(begin.size())) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + (c - '0');
  }
  return number;
}

bool counts_blocks(const StateDict& file) { return file.contains(std::string(kCountedA) + "000"); }

void read_counted(Adapter& adapter) {
  std::map<std::int64_t, Pieces> pairs;
  for (const TensorEntry& entry : adapter.file.tensors()) {
    if (const auto a = counted(entry.name, kCountedA)) {
      pairs[*a].a = &entry;
    } else if (const auto b = counted(entry.name, kCountedB)) {
      pairs[*b].b = &entry;
    } else {
      adapter.whole.emplace_back(entry.name, entry);
    }
  }
  const auto count = static_cast<std::int64_t>(pairs.size());
  if (count % 2 != 0 || pairs.rbegin()->first != count - 1) {
    fail<CheckpointError>(
        adapter.file.source, "pairs w_a_, w_b_ of queries and values, from 000 on",
        std::to_string(count) + ", the last of which is " + std::to_string(pairs.rbegin()->first));
  }
  for (const auto& [number, pieces] : pairs) {
    const std::string module = counted_block(number / 2);
    require_pair(adapter, std::string(kCountedA) + std::to_string(number), pieces);
    rank_of(adapter, *pieces.a);
    adapter.updates.push_back({.module = module,
                               .a = *pieces.a,
                               .b = *pieces.b,
                               .part = number % 2 == 0 ? 0 : 2,
                               .parts = 3});
  }
  adapter.counted_blocks = count / 2;
}

// ---------------------------------------------------------------- adapters among a model's tensors

// The end of a name in micro-sam's checkpoints, or in the state dict of SAMed's module: what it is
// of the layer that is named before it, or of one below.
struct InnerRow {
  std::string_view end;
  const TensorEntry* Pieces::* piece;
  std::string_view below;
  std::int64_t part, parts;
};
constexpr InnerRow kInnerRows[] = {
    {".w_a_linear_q.weight", &Pieces::a, "", 0, 3},
    {".w_b_linear_q.weight", &Pieces::b, "", 0, 3},
    {".w_a_linear_k.weight", &Pieces::a, "", 1, 3},
    {".w_b_linear_k.weight", &Pieces::b, "", 1, 3},
    {".w_a_linear_v.weight", &Pieces::a, "", 2, 3},
    {".w_b_linear_v.weight", &Pieces::b, "", 2, 3},
    {".w_a_linear_1.weight", &Pieces::a, ".lin1", 0, 1},
    {".w_b_linear_1.weight", &Pieces::b, ".lin1", 0, 1},
    {".w_a_linear_2.weight", &Pieces::a, ".lin2", 0, 1},
    {".w_b_linear_2.weight", &Pieces::b, ".lin2", 0, 1},
    {".linear_a_q.weight", &Pieces::a, "", 0, 3},
    {".linear_b_q.weight", &Pieces::b, "", 0, 3},
    {".linear_a_v.weight", &Pieces::a, "", 2, 3},
    {".linear_b_v.weight", &Pieces::b, "", 2, 3},
};

// Where these programs keep the layer itself, and its own name.
constexpr std::pair<std::string_view, std::string_view> kInnerLayers[] = {
    {".qkv.qkv_proj.", ".qkv."}, {".qkv.qkv.", ".qkv."}, {".mlp.mlp_layer.", ".mlp."}};

const InnerRow* inner_row(std::string_view name) {
  const auto row = std::find_if(std::begin(kInnerRows), std::end(kInnerRows),
                                [&](const InnerRow& each) { return name.ends_with(each.end); });
  return row == std::end(kInnerRows) ? nullptr : &*row;
}

bool has_inner(const StateDict& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [](const TensorEntry& entry) { return inner_row(entry.name) != nullptr; });
}

std::string own_name(std::string name) {
  for (const auto& [inner, outer] : kInnerLayers) {
    const std::size_t at = name.find(inner);
    if (at != std::string::npos) return name.replace(at, inner.size(), outer);
  }
  return name;
}

void read_inner(Adapter& adapter) {
  std::map<std::pair<std::string, std::int64_t>, Pieces> layers;
  std::map<std::pair<std::string, std::int64_t>, const InnerRow*> rows;
  for (const TensorEntry& entry : adapter.file.tensors()) {
    const InnerRow* const row = inner_row(entry.name);
    if (row == nullptr) {
      adapter.whole.emplace_back(own_name(entry.name), entry);
      continue;
    }
    const std::string layer = entry.name.substr(0, entry.name.size() - row->end.size());
    const std::pair key(layer + std::string(row->below), row->part);
    layers[key].*(row->piece) = &entry;
    rows[key] = row;
  }
  for (const auto& [key, pieces] : layers) {
    require_pair(adapter, key.first, pieces);
    rank_of(adapter, *pieces.a);
    adapter.updates.push_back({.module = key.first,
                               .a = *pieces.a,
                               .b = *pieces.b,
                               .part = key.second,
                               .parts = rows.at(key)->parts});
  }
}

// ---------------------------------------------------------------- which of them a source is

fs::path weights_of(const fs::path& folder) {
  if (!fs::is_regular_file(folder / kAdapterFile)) {
    fail<CheckpointError>(printable(utf8_of(folder)), "a folder of PEFT with adapter_config.json",
                          "none in it");
  }
  for (const char* const name : kAdapterWeights) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  fail<CheckpointError>(printable(utf8_of(folder)),
                        "adapter_model.safetensors or adapter_model.bin", "none of them");
}

[[noreturn]] void refuse_unknown(const StateDict& file) {
  const auto& tensors = file.tensors();
  const bool peft = std::any_of(tensors.begin(), tensors.end(), [](const TensorEntry& entry) {
    return entry.name.find(".lora_") != std::string::npos;
  });
  if (peft) {
    fail<CheckpointError>(file.source, "adapter_config.json beside it, which has the scale",
                          "none: only the program that trained it knows lora_alpha");
  }
  fail<UnsupportedError>(
      file.source, "a LoRA adapter of PEFT, SAMed or micro-sam",
      tensors.empty() ? "no tensors" : "tensors such as " + printable(tensors.front().name));
}

}  // namespace

std::string counted_block(std::int64_t block) {
  return "image_encoder.blocks." + std::to_string(block) + ".attn.qkv";
}

Adapter read_adapter(const fs::path& source) {
  const fs::path path = fs::is_directory(source) ? weights_of(source) : source;
  const fs::path config = path.parent_path() / kAdapterFile;
  Adapter adapter;
  adapter.file = open_tensors(path);
  if (counts_blocks(adapter.file)) {
    read_counted(adapter);
  } else if (has_inner(adapter.file)) {
    read_inner(adapter);
  } else if (fs::is_regular_file(config)) {
    read_peft(adapter, PeftConfig(config));
  } else {
    refuse_unknown(adapter.file);
  }
  return adapter;
}

std::optional<Adapter> take_adapter(StateDict& state_dict) {
  if (!has_inner(state_dict)) return std::nullopt;
  Adapter adapter;
  adapter.file = state_dict;
  read_inner(adapter);
  adapter.whole.clear();
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    names.push_back(inner_row(entry.name) == nullptr ? own_name(entry.name) : "");
  }
  state_dict.rename(names);
  return adapter;
}

}  // namespace sam_rlx
