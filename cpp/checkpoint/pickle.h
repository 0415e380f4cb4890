#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sam_rlx {

// A value of a pickle. Nothing is ever imported or called: a global is its name, a call is a
// record of callee and arguments, and an object of any class is such a call. Texts point into the
// bytes of the pickle: a text that is remembered and used many times is there once.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kBigInt,
    kFloat,
    kString,
    kBytes,
    kTuple,
    kList,
    kSet,
    kDict,
    kGlobal,
    kPersistent,
    kCall
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // kInt, kBool
  double real = 0;           // kFloat
  // kString and kBytes; kGlobal and kCall: "module.name"; kBigInt: little-endian bytes.
  std::string_view text;
  // Items of a tuple, list or set; a dict's keys and values in turn.
  std::vector<const PickleValue*> items;
  // Tuple of a call or of a persistent id; its items are shared, not copied.
  const PickleValue* arguments = nullptr;
  const PickleValue* state = nullptr;  // attributes that were set on the object of a call

  bool is(Kind other) const { return kind == other; }
  // Value of a string key of a dict, the last one if there are several; null if there is none.
  const PickleValue* find(std::string_view key) const;
};

struct Pickle {
  std::deque<PickleValue> values;              // owns every value; containers may form cycles
  std::set<std::string, std::less<>> globals;  // owns the names of globals
  const PickleValue* root = nullptr;
  std::vector<const PickleValue*> persistent;  // persistent ids, in order of appearance
  std::size_t size = 0;                        // bytes read
};

// Reads one pickle from the front of `bytes`, which must outlive it: the opcodes of protocols 2 to
// 5. Time and memory are linear in the bytes read. Objects of classes that are not known here
// become values that nobody reads. CheckpointError for another opcode, and for a global that could
// run code (pickle_globals.h), by its name.
Pickle read_pickle(std::span<const std::byte> bytes, const std::string& where);

}  // namespace sam_rlx
