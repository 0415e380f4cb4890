#include "loading/merge_adapter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "checkpoint/mapped_file.h"
#include "checkpoint/text.h"
#include "core/cores.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/tensor.h"
#include "loading/adapter.h"
#include "loading/family.h"

namespace sam_rlx {
namespace {

constexpr const char* kWeight = ".weight";

// ---------------------------------------------------------------- names

// From an adapter's name to the model's.
using Naming = std::function<std::string(std::string_view)>;

// The weight of a layer; of PyTorch's attention it is that of queries, keys and values.
const TensorEntry* weight_of(const StateDict& base, const std::string& module) {
  const TensorEntry* const weight = base.find(module + kWeight);
  return weight != nullptr ? weight : base.find(module + ".in_proj_weight");
}

// Names of the adapter that the model has not, the first `most` of them.
std::vector<std::string> misses(const StateDict& base, const Adapter& adapter, const Naming& naming,
                                std::size_t most = SIZE_MAX) {
  std::vector<std::string> names;
  for (const Adapter::Update& update : adapter.updates) {
    if (names.size() == most) return names;
    if (weight_of(base, naming(update.module)) == nullptr) names.push_back(update.module);
  }
  for (const auto& [name, entry] : adapter.whole) {
    if (names.size() == most) return names;
    if (!base.contains(naming(name))) names.push_back(name);
  }
  return names;
}

bool fits(const StateDict& base, const Adapter& adapter, const Naming& naming) {
  return misses(base, adapter, naming, 1).empty();
}

std::string without_parts(std::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) return "";
    name.remove_prefix(dot + 1);
  }
  return std::string(name);
}

// How the names of a model begin, with up to so many parts.
std::set<std::string> beginnings(const StateDict& base) {
  constexpr int kMaxParts = 4;
  std::set<std::string> result;
  for (const TensorEntry& entry : base.tensors()) {
    std::size_t end = 0;
    for (int i = 0; i < kMaxParts; ++i) {
      end = entry.name.find('.', end);
      if (end == std::string::npos) break;
      result.insert(entry.name.substr(0, ++end));
    }
  }
  return result;
}

// What an adapter's names may stand for: themselves, behind the names of what wraps the model, and
// those of one of transformers' classes that have a part of it.
std::vector<Naming> namings(const Family& family) {
  constexpr int kMaxWrappers = 3;
  std::vector<Naming> result;
  for (int count = 0; count <= kMaxWrappers; ++count) {
    result.push_back([count](std::string_view name) { return without_parts(name, count); });
  }
  if (!family.part_names.empty()) {
    result.push_back(
        [rows = family.part_names](std::string_view name) { return mapped_key(rows, name); });
  }
  return result;
}

Naming behind(const std::string& begin) {
  return [begin](std::string_view name) { return begin + std::string(name); };
}

// How the model has all that the adapter names. Names of a part of it, such as the encoder, stand
// for that part, if it is the only one that has them.
std::optional<Naming> naming_of(const StateDict& base, const Family& family,
                                const Adapter& adapter) {
  for (const Naming& naming : namings(family)) {
    if (fits(base, adapter, naming)) return naming;
  }
  std::vector<std::string> fitting;
  for (const std::string& begin : beginnings(base)) {
    if (fits(base, adapter, behind(begin))) fitting.push_back(begin);
  }
  if (fitting.size() > 1) {
    fail<CheckpointError>(adapter.file.source, "names that one part of the model has",
                          "those of " + alternatives({fitting.begin(), fitting.end()}));
  }
  return fitting.empty() ? std::nullopt : std::optional(behind(fitting.front()));
}

[[noreturn]] void refuse_names(const Adapter& adapter, const std::vector<std::string>& missing) {
  constexpr std::size_t kMaxLines = 8;
  ShortList lines(kMaxLines);
  for (const std::string& name : missing) lines.add(printable(name));
  std::string text = adapter.file.source + ": expected an adapter of this model, found " +
                     std::to_string(missing.size()) + " names that it has not";
  for (const std::string& line : lines.lines()) text += "\n  " + line;
  throw CheckpointError(text);
}

// Names of the adapter that the model has not, by the naming that it has most of.
std::vector<std::string> fewest_misses(const StateDict& base, const Family& family,
                                       const Adapter& adapter) {
  std::optional<std::vector<std::string>> fewest;
  for (const Naming& naming : namings(family)) {
    std::vector<std::string> names = misses(base, adapter, naming);
    if (!fewest || names.size() < fewest->size()) fewest = std::move(names);
  }
  return *fewest;
}

// ---------------------------------------------------------------- numbers

std::vector<float> floats_of(const StateDict& file, const TensorEntry& entry) {
  std::vector<float> values(static_cast<std::size_t>(entry.numel()));
  copy_as_float(file, entry, values.data());
  return values;
}

bool all_finite(const float* values, std::int64_t count) {
  return std::all_of(values, values + count, [](float x) { return std::isfinite(x); });
}

// A weight as rows of `inner` numbers, and what is added to some of the rows.
struct Product {
  float* weight = nullptr;
  std::int64_t out = 0, inner = 0, rank = 0;
  const float *a = nullptr, *b = nullptr;  // (rank, inner), (out, rank)
  float scale = 1.0F;
  bool turned = false;  // the weight is (inner, out)
  const float* magnitude = nullptr;

  // scale * (B @ A) of one row.
  void row(std::int64_t o, float* sums) const {
    std::fill(sums, sums + inner, 0.0F);
    for (std::int64_t k = 0; k < rank; ++k) {
      const float factor = b[o * rank + k];
      const float* const line = a + k * inner;
      for (std::int64_t i = 0; i < inner; ++i) sums[i] = std::fma(factor, line[i], sums[i]);
    }
    for (std::int64_t i = 0; i < inner; ++i) sums[i] *= scale;
  }

  // DoRA: the row gets the length that was learned.
  void set_length(std::int64_t o) const {
    float* const line = weight + o * inner;
    double squares = 0.0;
    for (std::int64_t i = 0; i < inner; ++i) squares += static_cast<double>(line[i]) * line[i];
    const float factor = magnitude[o] / static_cast<float>(std::sqrt(squares));
    for (std::int64_t i = 0; i < inner; ++i) line[i] *= factor;
  }

  void add() const {
    const Loop loop{.num_threads = available_cores(),
                    .count = out,
                    .grain = 16,
                    .work = inner * (rank + kNumberWork)};
    parallel_for(loop, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<float> sums(static_cast<std::size_t>(inner));
      for (std::int64_t o = begin; o < end; ++o) {
        row(o, sums.data());
        for (std::int64_t i = 0; i < inner; ++i) {
          weight[turned ? i * out + o : o * inner + i] += sums[static_cast<std::size_t>(i)];
        }
        if (magnitude != nullptr) set_length(o);
      }
    });
  }
};

// Replaces tensors of a checkpoint by float32 copies, which can be changed.
class Merger {
 public:
  Merger(StateDict& base, const Adapter& adapter, const Naming& naming)
      : base_(base), adapter_(adapter), naming_(naming) {}

  void merge_all() {
    for (const auto& [name, entry] : adapter_.whole) replace(name, entry);
    for (const Adapter::Update& update : adapter_.updates) add(update);
    for (const auto& [name, tensor] : copies_) {
      if (!all_finite(tensor->data(), tensor->shape().numel())) {
        fail<CheckpointError>(adapter_.file.source + ": " + printable(name),
                              "finite numbers after the merge", "NaN or infinity");
      }
    }
    base_.transform([&](TensorEntry& entry) {
      const auto found = copies_.find(entry.name);
      if (found != copies_.end()) point_to(entry, *found->second);
    });
    for (auto& [name, tensor] : copies_) base_.owned.push_back(std::move(tensor));
  }

 private:
  static void point_to(TensorEntry& entry, const Tensor& tensor) {
    entry.dtype = DType::kF32;
    entry.data = reinterpret_cast<const std::byte*>(tensor.data());
    entry.negative = false;
    entry.parts.clear();
    entry.strides.assign(entry.dims.size(), 1);
    for (std::size_t axis = entry.dims.size(); axis-- > 1;) {
      entry.strides[axis - 1] = entry.strides[axis] * entry.dims[axis];
    }
  }

  std::string where(const TensorEntry& entry) const {
    return adapter_.file.source + ": " + printable(entry.name);
  }

  std::vector<float> finite(const TensorEntry& entry) const {
    if (dtype_kind(entry.dtype) != NumberKind::kFloat) {
      fail<CheckpointError>(where(entry), "floating-point numbers", dtype_name(entry.dtype));
    }
    std::vector<float> values = floats_of(adapter_.file, entry);
    if (!all_finite(values.data(), entry.numel())) {
      fail<CheckpointError>(where(entry), "finite numbers", "NaN or infinity");
    }
    return values;
  }

  // Where the numbers of a tensor can be changed.
  float* copy(const TensorEntry& entry) {
    std::shared_ptr<Tensor>& tensor = copies_[entry.name];
    if (!tensor) {
      if (dtype_kind(entry.dtype) != NumberKind::kFloat) {
        fail<CheckpointError>(base_.source + ": " + printable(entry.name), "floating-point numbers",
                              dtype_name(entry.dtype));
      }
      tensor = std::make_shared<Tensor>(Shape{entry.numel()});
      copy_as_float(base_, entry, tensor->data());
    }
    return tensor->data();
  }

  void replace(const std::string& name, const TensorEntry& entry) {
    const TensorEntry& target = *base_.find(naming_(name));
    if (target.dims != entry.dims) {
      fail<CheckpointError>(where(entry), "shape " + dims_text(target.dims) + " as in the model",
                            dims_text(entry.dims));
    }
    const std::vector<float> values = finite(entry);
    std::copy(values.begin(), values.end(), copy(target));
  }

  // Sizes of the two matrices for a weight: (r, in, ...) and (out, r, 1, ...).
  void check(const Adapter::Update& update, const TensorEntry& weight) const {
    std::vector<std::int64_t> a = weight.dims, b;
    if (a.size() < 2 || a[0] % update.parts != 0) {
      fail<CheckpointError>(where(update.a),
                            "a layer whose rows are " + std::to_string(update.parts) + " parts",
                            printable(weight.name) + " of shape " + dims_text(weight.dims));
    }
    if (update.embedding) std::swap(a[0], a[1]);
    const std::int64_t rank = update.a.dims[0];
    const std::int64_t widest = std::max(weight.dims[0], weight.numel() / weight.dims[0]);
    if (rank > widest) {
      fail<CheckpointError>(where(update.a),
                            "a rank of at most " + std::to_string(widest) +
                                ", the longer side of " + printable(weight.name),
                            std::to_string(rank));
    }
    b.assign(a.size(), 1);
    b[0] = std::exchange(a[0], rank) / update.parts;
    b[1] = rank;
    const std::string of = " for " + printable(weight.name) + " of shape " + dims_text(weight.dims);
    if (update.a.dims != a) {
      fail<CheckpointError>(where(update.a), "shape " + dims_text(a) + of,
                            dims_text(update.a.dims));
    }
    if (update.b.dims != b) {
      fail<CheckpointError>(where(update.b), "shape " + dims_text(b) + of,
                            dims_text(update.b.dims));
    }
    if (update.magnitude && update.magnitude->numel() != b[0]) {
      fail<CheckpointError>(where(*update.magnitude), std::to_string(b[0]) + " numbers" + of,
                            dims_text(update.magnitude->dims));
    }
  }

  void add(const Adapter::Update& update) {
    const std::string module = naming_(update.module);
    const TensorEntry& weight = *weight_of(base_, module);
    check(update, weight);
    const std::vector<float> a = finite(update.a), b = finite(update.b);
    std::vector<float> magnitude;
    if (update.magnitude) magnitude = finite(*update.magnitude);
    const std::int64_t rank = update.a.dims[0], out = update.b.dims[0],
                       inner = update.a.numel() / rank;
    Product{.weight = copy(weight) + update.part * out * inner,
            .out = out,
            .inner = inner,
            .rank = rank,
            .a = a.data(),
            .b = b.data(),
            .scale = static_cast<float>(update.scale),
            .turned = update.embedding,
            .magnitude = update.magnitude ? magnitude.data() : nullptr}
        .add();
    if (update.bias) add_bias(update, module);
  }

  void add_bias(const Adapter::Update& update, const std::string& module) {
    const TensorEntry* const bias = base_.find(module + ".bias");
    if (bias == nullptr || bias->dims != update.bias->dims) {
      fail<CheckpointError>(where(*update.bias), "a bias of this shape in the model",
                            bias == nullptr ? "none" : dims_text(bias->dims));
    }
    const std::vector<float> values = finite(*update.bias);
    float* const sums = copy(*bias);
    const auto scale = static_cast<float>(update.scale);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i] * scale;
  }

  StateDict& base_;
  const Adapter& adapter_;
  const Naming& naming_;
  std::map<std::string, std::shared_ptr<Tensor>> copies_;
};

// ---------------------------------------------------------------- one adapter

// Files that count blocks do not say which: they have to be all of them.
void check_blocks(const StateDict& base, const Adapter& adapter) {
  if (!adapter.counted_blocks) return;
  std::int64_t count = 0;
  while (base.contains(counted_block(count) + kWeight)) ++count;
  if (count == *adapter.counted_blocks) return;
  fail<CheckpointError>(adapter.file.source,
                        std::to_string(2 * count) + " pairs, of queries and values of " +
                            std::to_string(count) + " blocks of the image encoder",
                        std::to_string(2 * *adapter.counted_blocks) +
                            ": the file does not say of which blocks they are");
}

bool is_owned(const StateDict& state_dict, const TensorEntry& entry) {
  if (!entry.parts.empty()) {
    return std::any_of(entry.parts.begin(), entry.parts.end(),
                       [&](const TensorEntry& part) { return is_owned(state_dict, part); });
  }
  return std::any_of(state_dict.owned.begin(), state_dict.owned.end(), [&](const auto& tensor) {
    const std::byte* const begin = reinterpret_cast<const std::byte*>(tensor->data());
    const auto bytes = static_cast<std::size_t>(tensor->shape().numel()) * sizeof(float);
    return !std::less<>()(entry.data, begin) && std::less<>()(entry.data, begin + bytes);
  });
}

// Merges where names of the adapter are those of the checkpoint; false where they are not.
bool merge_as_named(StateDict& base, const Family& family, const Adapter& adapter) {
  const std::optional<Naming> naming = naming_of(base, family, adapter);
  if (!naming) return false;
  check_blocks(base, adapter);
  Merger(base, adapter, *naming).merge_all();
  return true;
}

// Merges by transformers' names into a model with Meta's: what has changed comes back by the tables
// that read transformers' folders.
bool merge_by_folder_names(StateDict& base, const Family& family, const Adapter& adapter) {
  StateDict folder = base;
  family.to_hugging_face(folder, family.config_of(base, std::nullopt));
  if (!merge_as_named(folder, family, adapter)) return false;
  family.to_meta(folder, Dialect::kHuggingFace);
  base.owned = folder.owned;
  base.transform([&](TensorEntry& entry) {
    const TensorEntry* const found = folder.find(entry.name);
    if (found != nullptr && is_owned(folder, *found)) entry = *found;
  });
  return true;
}

void merge_other(StateDict& base, const std::string& lora) {
  const Adapter adapter = read_adapter(path_of(lora));
  verify_checksums(adapter.file, available_cores());
  StateDict renamed = base;
  const Family& family = to_meta_names(renamed);
  if (merge_as_named(base, family, adapter)) return;
  base = std::move(renamed);
  if (merge_as_named(base, family, adapter) || merge_by_folder_names(base, family, adapter)) return;
  StateDict folder = base;
  family.to_hugging_face(folder, family.config_of(base, std::nullopt));
  const std::vector<std::string> metas = fewest_misses(base, family, adapter);
  const std::vector<std::string> transformers = fewest_misses(folder, family, adapter);
  refuse_names(adapter, transformers.size() < metas.size() ? transformers : metas);
}

}  // namespace

void merge_adapters(StateDict& base, const std::optional<std::string>& lora) {
  if (const std::optional<Adapter> own = take_adapter(base)) {
    const Naming naming = [](std::string_view name) { return std::string(name); };
    const std::vector<std::string> missing = misses(base, *own, naming);
    if (!missing.empty()) refuse_names(*own, missing);
    Merger(base, *own, naming).merge_all();
  }
  if (lora) merge_other(base, *lora);
}

std::vector<std::string> merged_names(const StateDict& state_dict) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    if (is_owned(state_dict, entry)) names.push_back(entry.name);
  }
  return names;
}

}  // namespace sam_rlx
