#include "checkpoint/torch_state.h"

#include <algorithm>
#include <limits>
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

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

const PickleValue& argument(const PickleValue& owner, std::size_t index, Kind kind,
                            const std::string& where) {
  if (index >= owner.items.size() || !owner.items[index]->is(kind)) {
    fail<CheckpointError>(where, "the arguments that torch.save writes",
                          "another value in place " + std::to_string(index));
  }
  return *owner.items[index];
}

std::vector<std::int64_t> parse_sizes(const PickleValue& tuple, const std::string& where) {
  // Many tensors may share one tuple: the limit keeps the copies small.
  constexpr std::size_t kMaxDims = 16;
  std::vector<std::int64_t> sizes;
  sizes.reserve(std::min(tuple.items.size(), kMaxDims));
  for (const PickleValue* const item : tuple.items) {
    if (sizes.size() == kMaxDims || !item->is(Kind::kInt) || item->integer < 0) {
      fail<CheckpointError>(where, "up to 16 sizes or strides of at least 0", "others");
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
  if (value->is(Kind::kCall) && value->text == kRebuildParameter && !value->items.empty()) {
    value = value->items[0];
  }
  return value->is(Kind::kCall) && value->text == kRebuildTensor ? value : nullptr;
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

const PickleValue& unwrap(const PickleValue& root, const std::string& where) {
  if (!root.is(Kind::kDict)) {
    fail<CheckpointError>(where, "a state dict", "a pickle of another object");
  }
  for (const char* const key : {"model", "state_dict"}) {
    const PickleValue* const inner = root.find(key);
    if (inner != nullptr && inner->is(Kind::kDict)) return *inner;
  }
  return root;
}

}  // namespace

bool torch_global_allowed(std::string_view global) {
  for (const StorageType& type : kStorageTypes) {
    if (global == type.global) return true;
  }
  return global == "collections.OrderedDict" || global == kRebuildTensor ||
         global == kRebuildParameter;
}

TorchStorage parse_storage(const PickleValue& persistent, const std::string& where) {
  if (argument(persistent, 0, Kind::kString, where).text != "storage") {
    fail<CheckpointError>(where, "the persistent id of a storage", "another one");
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
                           const StorageLookup& find_storage) {
  const PickleValue& dict = unwrap(root, where);
  StateDict result;
  result.source = where;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    if (!dict.items[i]->is(Kind::kString)) {
      fail<CheckpointError>(where, "names of tensors as keys", "a key that is no string");
    }
    const std::string_view name = dict.items[i]->text;
    const PickleValue* const call = tensor_call(dict.items[i + 1]);
    if (call == nullptr) {
      result.skip(name, "not a tensor");
    } else {
      result.add_or_skip(parse_tensor(name, *call, where + ": " + printable(name), find_storage));
    }
  }
  return result;
}

}  // namespace sam_rlx
