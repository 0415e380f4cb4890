#include "checkpoint/torch_state.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using Kind = PickleValue::Kind;

struct StorageType {
  std::string_view global;
  DType dtype;
};

constexpr StorageType kStorageTypes[] = {
    {"torch.FloatStorage", DType::kF32},       {"torch.HalfStorage", DType::kF16},
    {"torch.BFloat16Storage", DType::kBF16},   {"torch.DoubleStorage", DType::kF64},
    {"torch.LongStorage", DType::kI64},        {"torch.IntStorage", DType::kI32},
    {"torch.ShortStorage", DType::kI16},       {"torch.CharStorage", DType::kI8},
    {"torch.ByteStorage", DType::kU8},         {"torch.BoolStorage", DType::kBool},
    {"torch.ComplexFloatStorage", DType::kC64}};

// Calls that make a tensor: the first of a storage, the others of the call that is their argument.
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildOldTensor = "torch._utils._rebuild_tensor";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kRebuildStateful = "torch._utils._rebuild_parameter_with_state";

// What a value is, for a message.
std::string describe(const PickleValue& value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
      return "the number " + std::to_string(value.integer);
    case Kind::kBigInt:
    case Kind::kFloat:
      return "a number";
    case Kind::kString:
      return "the text " + quoted(value.text);
    case Kind::kBytes:
      return "bytes";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kList:
      return "a list";
    case Kind::kSet:
      return "a set";
    case Kind::kDict:
      return "a dict";
    case Kind::kGlobal:
      return printable(value.text);
    case Kind::kPersistent:
      return "a storage";
    case Kind::kCall:
      return "an object of " + printable(value.text);
  }
  return "another value";
}

const PickleValue& argument(const PickleValue& owner, std::size_t index, Kind kind,
                            const std::string& where) {
  const auto& items = owner.arguments->items;
  if (index >= items.size() || !items[index]->is(kind)) {
    fail<CheckpointError>(where, "the arguments that torch.save writes",
                          (index < items.size() ? describe(*items[index]) : "none") +
                              " at position " + std::to_string(index));
  }
  return *items[index];
}

std::vector<std::int64_t> parse_sizes(const PickleValue& tuple, const std::string& where) {
  // Many tensors may share one tuple: the limit keeps the copies small.
  constexpr std::size_t kMaxDims = 16;
  std::vector<std::int64_t> sizes;
  sizes.reserve(std::min(tuple.items.size(), kMaxDims));
  for (const PickleValue* const item : tuple.items) {
    if (sizes.size() == kMaxDims || !item->is(Kind::kInt) || item->integer < 0) {
      fail<CheckpointError>(
          where, "up to 16 sizes or strides of at least 0",
          sizes.size() == kMaxDims ? std::to_string(tuple.items.size()) : describe(*item));
    }
    sizes.push_back(item->integer);
  }
  return sizes;
}

// Checks that every element of the view lies in the storage, without any overflow.
void check_view(const TensorEntry& entry, std::int64_t offset, std::int64_t storage_numel,
                const std::string& where) {
  const auto refuse = [&] {
    fail<CheckpointError>(where,
                          "a view of the storage's " + std::to_string(storage_numel) + " elements",
                          "offset " + std::to_string(offset) + ", shape " + dims_text(entry.dims) +
                              ", strides " + dims_text(entry.strides));
  };
  if (entry.dims.size() != entry.strides.size() || offset < 0 || offset > storage_numel) refuse();
  std::int64_t numel = 1;
  bool empty = false;
  for (const std::int64_t size : entry.dims) {
    empty = empty || size == 0;
    if (size == 0) continue;
    if (numel > std::numeric_limits<std::int64_t>::max() / size) refuse();
    numel *= size;
  }
  if (empty) return;
  if (numel > storage_numel) refuse();
  std::int64_t room = storage_numel - offset - 1;  // elements behind the first
  if (room < 0) refuse();
  for (std::size_t axis = 0; axis < entry.dims.size(); ++axis) {
    const std::int64_t steps = entry.dims[axis] - 1;
    if (steps > 0 && entry.strides[axis] > room / steps) refuse();
    if (steps > 0) room -= steps * entry.strides[axis];
  }
}

// The call that makes a tensor; null when the value is something else.
const PickleValue* tensor_call(const PickleValue* value) {
  if (value->is(Kind::kCall) &&
      (value->text == kRebuildParameter || value->text == kRebuildStateful) &&
      !value->arguments->items.empty()) {
    value = value->arguments->items[0];
  }
  const bool makes =
      value->is(Kind::kCall) && (value->text == kRebuildTensor || value->text == kRebuildOldTensor);
  return makes ? value : nullptr;
}

TensorEntry parse_tensor(std::string_view name, const PickleValue& call, const std::string& where,
                         const StorageLookup& find_storage) {
  const TorchStorage storage = parse_storage(argument(call, 0, Kind::kPersistent, where), where);
  const std::int64_t offset = argument(call, 1, Kind::kInt, where).integer;
  TensorEntry entry;
  entry.name = name;
  entry.dtype = storage.dtype;
  entry.dims = parse_sizes(argument(call, 2, Kind::kTuple, where), where);
  entry.strides = parse_sizes(argument(call, 3, Kind::kTuple, where), where);
  check_view(entry, offset, storage.numel, where);
  entry.data = find_storage(storage).data() + offset * dtype_bytes(storage.dtype);
  return entry;
}

// ---------------------------------------------------------------- dicts with tensors

// All of them, outer ones first, each once.
std::vector<NestedDict> find_dicts(const PickleValue& root) {
  std::vector<NestedDict> found;
  if (!root.is(Kind::kDict)) return found;
  std::vector<NestedDict> level(1);
  level.front().dict = &root;
  std::unordered_set<const PickleValue*> seen{&root};
  while (!level.empty()) {
    std::vector<NestedDict> below;
    for (NestedDict& each : level) {
      const auto& items = each.dict->items;
      for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        if (!items[i]->is(Kind::kString)) continue;
        if (tensor_call(items[i + 1]) != nullptr) {
          each.names.push_back(items[i]->text);
        } else if (items[i + 1]->is(Kind::kDict) && !items[i + 1]->items.empty() &&
                   each.depth < NestedDict::kMaxDepth && seen.insert(items[i + 1]).second) {
          NestedDict& inner = below.emplace_back();
          inner.path = each.path;
          inner.path[each.depth] = items[i]->text;
          inner.depth = each.depth + 1;
          inner.dict = items[i + 1];
        }
      }
      if (!each.names.empty()) found.push_back(std::move(each));
    }
    level = std::move(below);
  }
  return found;
}

bool is_module(const PickleValue& value) {
  return value.is(Kind::kCall) && value.state != nullptr &&
         (value.state->find("_parameters") != nullptr || value.state->find("_modules") != nullptr);
}

// Refuses a module of PyTorch that was saved whole: its class would have to run.
void refuse_module(const PickleValue& root, const std::string& where) {
  const auto refuse = [&](const PickleValue& module, const std::string& item) {
    throw UnsupportedError(
        where + ": expected a state dict, found a whole module of the class " +
        printable(module.text) + item +
        "; save its weights where its code is installed, if you trust the file: model = "
        "torch.load(FILE, weights_only=False)" +
        (item.empty() ? "" : "[KEY]") + "; torch.save(model.state_dict(), OUTPUT)");
  };
  if (is_module(root)) refuse(root, "");
  if (!root.is(Kind::kDict)) return;
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
    if (!is_module(*root.items[i + 1])) continue;
    const bool named = root.items[i]->is(Kind::kString);
    refuse(*root.items[i + 1],
           " under the key " + (named ? quoted(root.items[i]->text) : describe(*root.items[i])));
  }
}

void read_items(const PickleValue& dict, const StorageLookup& find_storage, StateDict& out) {
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = *dict.items[i];
    const PickleValue* const call = tensor_call(dict.items[i + 1]);
    if (!key.is(Kind::kString)) {
      out.skip(describe(key), "a key that is no text");
    } else if (call == nullptr) {
      out.skip(key.text, "not a tensor");
    } else {
      out.add_or_skip(
          parse_tensor(key.text, *call, out.source + ": " + printable(key.text), find_storage));
    }
  }
}

}  // namespace

std::string NestedDict::key() const {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text.append(i == 0 ? "" : ".").append(path[i]);
  return text;
}

std::size_t choose_largest(const std::vector<NestedDict>& dicts) {
  const auto largest = std::max_element(
      dicts.begin(), dicts.end(),
      [](const NestedDict& a, const NestedDict& b) { return a.names.size() < b.names.size(); });
  return static_cast<std::size_t>(largest - dicts.begin());
}

bool is_storage(const PickleValue& persistent) {
  const auto& items = persistent.arguments->items;
  return items.empty() || !items[0]->is(Kind::kString) || items[0]->text != "module";
}

TorchStorage parse_storage(const PickleValue& persistent, const std::string& where) {
  if (argument(persistent, 0, Kind::kString, where).text != "storage") {
    fail<CheckpointError>(where, "the persistent id of a storage",
                          quoted(argument(persistent, 0, Kind::kString, where).text));
  }
  const std::string_view global = argument(persistent, 1, Kind::kGlobal, where).text;
  const std::int64_t numel = argument(persistent, 4, Kind::kInt, where).integer;
  // A key may be remembered and used by many tensors, each of which looks its storage up.
  constexpr std::size_t kMaxKey = 256;
  const std::string_view key = argument(persistent, 2, Kind::kString, where).text;
  if (key.size() > kMaxKey) {
    fail<CheckpointError>(where, "a storage key of at most 256 bytes", std::to_string(key.size()));
  }
  for (const StorageType& type : kStorageTypes) {
    if (global != type.global) continue;
    if (numel < 0 || numel > std::numeric_limits<std::int64_t>::max() / dtype_bytes(type.dtype)) {
      fail<CheckpointError>(where, "a storage size that fits 63 bits", std::to_string(numel));
    }
    return {key, type.dtype, numel};
  }
  fail<CheckpointError>(where, "a storage type", printable(global));
}

StateDict read_torch_state(const PickleValue& root, const std::string& where,
                           const StorageLookup& find_storage, const ChooseDict& choose) {
  StateDict result;
  result.source = where;
  const std::vector<NestedDict> dicts = find_dicts(root);
  if (dicts.empty()) {
    refuse_module(root, where);
    if (!root.is(Kind::kDict)) {
      fail<CheckpointError>(where, "a state dict", "a pickle of " + describe(root));
    }
    read_items(root, find_storage, result);
    return result;
  }
  constexpr std::size_t kMaxKeys = 20;
  for (std::size_t i = 0; i < std::min(dicts.size(), kMaxKeys); ++i) {
    result.origin.keys.push_back(dicts[i].key());
  }
  const NestedDict& chosen = dicts[choose(dicts)];
  result.origin.key = chosen.key();
  read_items(*chosen.dict, find_storage, result);
  return result;
}

}  // namespace sam_rlx
