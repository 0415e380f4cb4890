#include "checkpoint/torch_state.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kUntypedStorages[] = {"torch.storage.UntypedStorage",
                                                 "torch.UntypedStorage"};

// Calls that make a tensor of a storage, with the position of {"neg": True} among their arguments;
// the last one has the dtype before it.
struct Rebuild {
  std::string_view function;
  std::size_t bits;
  bool has_dtype = false;
};
constexpr Rebuild kRebuilds[] = {{"torch._utils._rebuild_tensor", 6},
                                 {"torch._utils._rebuild_tensor_v2", 6},
                                 {"torch._utils._rebuild_tensor_v3", 7, true}};
// Calls whose first argument is a tensor, and those of tensors with attributes: the function, the
// class and the arguments.
constexpr std::string_view kWrapped[] = {"torch._utils._rebuild_parameter",
                                         "torch._utils._rebuild_parameter_with_state",
                                         "torch._utils._rebuild_device_tensor_from_cpu_tensor"};
constexpr std::string_view kOfType[] = {"torch._tensor._rebuild_from_type",
                                        "torch._tensor._rebuild_from_type_v2"};
// Other classes may make other numbers of what is stored.
constexpr std::string_view kPlainClasses[] = {"torch.Tensor", "torch.nn.parameter.Parameter",
                                              "torch.nn.parameter.Buffer"};

struct Reason {
  std::string_view function;
  const char* text;
};
constexpr Reason kReasons[] = {
    {"torch._utils._rebuild_qtensor", "a quantized tensor"},
    {"torch._utils._rebuild_sparse_tensor", "a sparse tensor"},
    {"torch._utils._rebuild_nested_tensor", "a nested tensor"},
    {"torch._utils._rebuild_meta_tensor_no_storage", "a tensor without numbers (device meta)"},
    {"numpy.core.multiarray._reconstruct", "a NumPy array"},
    {"numpy._core.multiarray._reconstruct", "a NumPy array"},
};

template <std::size_t N>
bool is_one_of(std::string_view text, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), text) != std::end(names);
}

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

const PickleValue& argument(const PickleValue& arguments, std::size_t index, Kind kind,
                            const std::string& where) {
  const auto& items = arguments.items;
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

// Elements that the tensors of a file may have more than their storages: an axis of stride 0, as
// of x.expand(...), repeats what is stored.
constexpr std::int64_t kMaxRepeated = std::int64_t{1} << 26;

// Checks that every element of the view lies in the storage, without any overflow, and takes the
// repeated elements from those that are still allowed.
void check_view(const TensorEntry& entry, std::int64_t offset, std::int64_t storage_numel,
                std::int64_t& repeatable, const std::string& where) {
  const auto refuse = [&] {
    fail<CheckpointError>(where,
                          "a view of the storage's " + std::to_string(storage_numel) + " elements",
                          "offset " + std::to_string(offset) + ", shape " + dims_text(entry.dims) +
                              ", strides " + dims_text(entry.strides));
  };
  if (entry.dims.size() != entry.strides.size() || offset < 0 || offset > storage_numel) refuse();
  std::int64_t numel = 1, stored = 1;  // stored: without axes that repeat
  bool empty = false;
  for (std::size_t axis = 0; axis < entry.dims.size(); ++axis) {
    const std::int64_t size = entry.dims[axis];
    empty = empty || size == 0;
    if (size == 0) continue;
    if (numel > std::numeric_limits<std::int64_t>::max() / size) refuse();
    numel *= size;
    if (entry.strides[axis] != 0) stored *= size;
  }
  if (empty) return;
  if (stored > storage_numel) refuse();
  if (numel > storage_numel) {
    if (numel - storage_numel > repeatable) {
      fail<CheckpointError>(
          where, "tensors that repeat at most " + std::to_string(kMaxRepeated) + " elements in all",
          "shape " + dims_text(entry.dims) + ", strides " + dims_text(entry.strides));
    }
    repeatable -= numel - storage_numel;
  }
  std::int64_t room = storage_numel - offset - 1;  // elements behind the first
  if (room < 0) refuse();
  for (std::size_t axis = 0; axis < entry.dims.size(); ++axis) {
    const std::int64_t steps = entry.dims[axis] - 1;
    if (steps > 0 && entry.strides[axis] > room / steps) refuse();
    if (steps > 0) room -= steps * entry.strides[axis];
  }
}

// The call that makes a tensor.
struct TensorCall {
  const Rebuild* rebuild = nullptr;  // null: the value is something else
  const PickleValue* arguments = nullptr;

  explicit operator bool() const { return rebuild != nullptr; }
};

TensorCall tensor_call(const PickleValue& value) {
  constexpr int kMaxLayers = 4;
  if (!value.is(Kind::kCall)) return {};
  std::string_view function = value.text;
  const PickleValue* arguments = value.arguments;
  for (int i = 0; i < kMaxLayers; ++i) {
    const auto* const rebuild =
        std::find_if(std::begin(kRebuilds), std::end(kRebuilds),
                     [&](const Rebuild& each) { return each.function == function; });
    if (rebuild != std::end(kRebuilds)) return {rebuild, arguments};
    const auto& items = arguments->items;
    if (is_one_of(function, kWrapped) && !items.empty() && items[0]->is(Kind::kCall)) {
      function = items[0]->text;
      arguments = items[0]->arguments;
    } else if (is_one_of(function, kOfType) && items.size() > 2 && items[0]->is(Kind::kGlobal) &&
               is_one_of(items[1]->text, kPlainClasses) && items[2]->is(Kind::kTuple)) {
      function = items[0]->text;
      arguments = items[2];
    } else {
      return {};
    }
  }
  return {};
}

// Why a value is left out.
std::string skip_reason(const PickleValue& value) {
  if (value.is(Kind::kCall)) {
    for (const Reason& reason : kReasons) {
      if (value.text == reason.function) return reason.text;
    }
    const auto& items = value.arguments->items;
    const bool names_class = is_one_of(value.text, kOfType) && items.size() > 1;
    if (names_class) return "a tensor of the class " + printable(items[1]->text);
  }
  return "not a tensor";
}

DType dtype_argument(const PickleValue& arguments, std::size_t index, const std::string& where) {
  const std::string_view global = argument(arguments, index, Kind::kGlobal, where).text;
  const std::optional<DType> dtype = torch_dtype(global);
  if (!dtype) fail<CheckpointError>(where, "dtype " + torch_dtypes(), printable(global));
  return *dtype;
}

TensorEntry parse_tensor(std::string_view name, const TensorCall& call, const std::string& where,
                         const StorageLookup& find_storage, std::int64_t& repeatable) {
  const PickleValue& arguments = *call.arguments;
  const TorchStorage storage =
      parse_storage(argument(arguments, 0, Kind::kPersistent, where), where);
  const std::int64_t offset = argument(arguments, 1, Kind::kInt, where).integer;
  const std::size_t bits = call.rebuild->bits;
  TensorEntry entry;
  entry.name = name;
  entry.dtype =
      call.rebuild->has_dtype ? dtype_argument(arguments, bits - 1, where) : storage.dtype;
  entry.dims = parse_sizes(argument(arguments, 2, Kind::kTuple, where), where);
  entry.strides = parse_sizes(argument(arguments, 3, Kind::kTuple, where), where);
  const std::int64_t bytes = dtype_bytes(entry.dtype);
  const std::int64_t numel = storage.numel * dtype_bytes(storage.dtype) / bytes;
  check_view(entry, offset, numel, repeatable, where);
  entry.data = find_storage(storage).data() + offset * bytes;
  const PickleValue* const negative =
      bits < arguments.items.size() ? arguments.items[bits]->find("neg") : nullptr;
  entry.negative = negative != nullptr && negative->is(Kind::kBool) && negative->integer != 0;
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
        if (tensor_call(*items[i + 1])) {
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
  std::int64_t repeatable = kMaxRepeated;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = *dict.items[i];
    const TensorCall call = tensor_call(*dict.items[i + 1]);
    if (!key.is(Kind::kString)) {
      out.skip(describe(key), "a key that is no text");
    } else if (!call) {
      out.skip(key.text, skip_reason(*dict.items[i + 1]));
    } else {
      out.add_or_skip(parse_tensor(key.text, call, out.source + ": " + printable(key.text),
                                   find_storage, repeatable));
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
  const PickleValue& id = *persistent.arguments;
  const std::string_view kind = argument(id, 0, Kind::kString, where).text;
  if (kind != "storage") {
    fail<CheckpointError>(where, "the persistent id of a storage", quoted(kind));
  }
  const std::string_view global = argument(id, 1, Kind::kGlobal, where).text;
  const std::int64_t numel = argument(id, 4, Kind::kInt, where).integer;
  // A key may be remembered and used by many tensors, each of which looks its storage up.
  constexpr std::size_t kMaxKey = 256;
  const std::string_view key = argument(id, 2, Kind::kString, where).text;
  if (key.size() > kMaxKey) {
    fail<CheckpointError>(where, "a storage key of at most 256 bytes", std::to_string(key.size()));
  }
  const bool untyped = is_one_of(global, kUntypedStorages);
  const std::optional<DType> dtype = untyped ? DType::kU8 : torch_storage_dtype(global);
  if (!dtype) fail<CheckpointError>(where, "a storage type", printable(global));
  if (numel < 0 || numel > std::numeric_limits<std::int64_t>::max() / dtype_bytes(*dtype)) {
    fail<CheckpointError>(where, "a storage size that fits 63 bits", std::to_string(numel));
  }
  return {key, *dtype, numel};
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
