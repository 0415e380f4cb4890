#include "checkpoint/torch_legacy.h"

#include <map>
#include <string_view>

#include "checkpoint/byte_reader.h"
#include "checkpoint/pickle.h"
#include "checkpoint/text.h"
#include "checkpoint/torch_state.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using Kind = PickleValue::Kind;
using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;
constexpr std::int64_t kProtocolVersion = 1001;

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  StateDict read(const ChooseDict& choose) {
    read_preamble();
    const Pickle object = next_pickle("object");
    const Pickle keys = next_pickle("storage keys");
    read_storages(object, keys);
    const auto find_storage = [&](const TorchStorage& storage) {
      return storages_.at(storage.key).data;
    };
    StateDict result = read_torch_state(*object.root, where_, find_storage, choose);
    result.origin.container = "PyTorch file from before 1.6";
    return result;
  }

 private:
  struct Storage {
    TorchStorage facts;
    std::span<const std::byte> data;
    bool found = false;
  };

  Pickle next_pickle(const char* what) {
    Pickle pickle = read_pickle(bytes_.subspan(position_), where_ + ": " + what);
    position_ += pickle.size;
    return pickle;
  }

  void read_preamble() {
    const Pickle magic = next_pickle("magic number");
    if (!magic.root->is(Kind::kBigInt) || magic.root->text != kMagic) {
      fail<CheckpointError>(where_, "PyTorch's magic number",
                            "a pickle that torch.save did not write");
    }
    const Pickle version = next_pickle("protocol version");
    if (!version.root->is(Kind::kInt) || version.root->integer != kProtocolVersion) {
      fail<CheckpointError>(where_, "protocol version 1001",
                            version.root->is(Kind::kInt) ? std::to_string(version.root->integer)
                                                         : "a value of another type");
    }
    const Pickle system = next_pickle("system");
    const PickleValue* const little = system.root->find("little_endian");
    if (little != nullptr && little->integer == 0) {
      throw UnsupportedError(where_ + ": expected byte order little, found big");
    }
  }

  void read_storages(const Pickle& object, const Pickle& keys) {
    for (const PickleValue* const persistent : object.persistent) {
      if (!is_storage(*persistent)) continue;
      const TorchStorage facts = parse_storage(*persistent, where_);
      const auto& id = persistent->arguments->items;
      if (id.size() > 5 && !id[5]->is(Kind::kNone)) {
        fail<CheckpointError>(location(facts.key), "a storage of its own", "a view of another");
      }
      const auto [known, added] = storages_.try_emplace(facts.key, Storage{facts, {}});
      const TorchStorage& first = known->second.facts;
      if (!added && (first.dtype != facts.dtype || first.numel != facts.numel)) {
        fail<CheckpointError>(location(facts.key), "one type and size", "two");
      }
    }
    if (!keys.root->is(Kind::kList)) fail<CheckpointError>(where_, "a list of keys", "no list");
    ByteReader reader(bytes_, where_, position_);
    for (const PickleValue* const key : keys.root->items) take_storage(reader, key->text);
    for (const auto& [key, storage] : storages_) {
      if (!storage.found) fail<CheckpointError>(location(key), "its elements", "none");
    }
  }

  void take_storage(ByteReader& reader, std::string_view key) {
    const auto known = storages_.find(key);
    if (known == storages_.end() || known->second.found) {
      fail<CheckpointError>(location(key), "a storage of the object, once", "another key");
    }
    Storage& storage = known->second;
    const auto numel = reader.take<std::int64_t>();
    if (numel != storage.facts.numel) {
      fail<CheckpointError>(location(key), std::to_string(storage.facts.numel) + " elements",
                            std::to_string(numel));
    }
    const auto size = static_cast<std::uint64_t>(numel * dtype_bytes(storage.facts.dtype));
    storage.data = reader.take_bytes(size);
    storage.found = true;
  }

  std::string location(std::string_view key) const {
    return where_ + ": storage " + printable(key);
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  std::size_t position_ = 0;
  std::map<std::string_view, Storage> storages_;
};

}  // namespace

StateDict read_torch_legacy(std::span<const std::byte> bytes, const std::string& where,
                            const ChooseDict& choose) {
  return Reader(bytes, where).read(choose);
}

}  // namespace sam_rlx
