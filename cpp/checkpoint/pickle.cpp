#include "checkpoint/pickle.h"

#include <bit>
#include <map>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/pickle_globals.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMaxSize = std::size_t{64} << 20;
constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxMarks = 1000;
constexpr std::size_t kMaxGlobal = 256;
constexpr const char* kShortGlobal = "a global's name of at most 256 bytes";

// The pickle machine: a stack of values, marks into it, and a memo.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& where)
      : reader_(bytes.first(std::min(bytes.size(), kMaxSize)), where) {}

  Pickle run() {
    for (;;) {
      const auto opcode = reader_.take<std::uint8_t>();
      if (opcode == '.') break;
      if (!push_scalar(opcode) && !push_text(opcode) && !push_bytes(opcode) &&
          !build_container(opcode) && !fill_container(opcode) && !use_memo(opcode) &&
          !build_object(opcode) && !control(opcode)) {
        refuse("an opcode of protocol 2 to 5", "opcode " + std::to_string(opcode));
      }
    }
    if (open_getattr_) refuse_global("builtins.getattr");
    result_.root = pop();
    result_.size = reader_.position();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    fail<CheckpointError>(reader_.where() + ", pickle byte " + std::to_string(reader_.position()),
                          expected, found);
  }

  [[noreturn]] void refuse_global(std::string_view global) const {
    refuse("only tensors, containers and plain values",
           "the global " + printable(global) + ", which could run code");
  }

  PickleValue& push(Kind kind) {
    PickleValue& value = make(kind);
    push_value(&value);
    return value;
  }
  PickleValue& make(Kind kind) {
    limit(result_.values.size(), kMaxValues, "values");
    PickleValue& value = result_.values.emplace_back();
    value.kind = kind;
    return value;
  }
  // One value stands for all equal ones of a kind that cannot be changed: `shared` is that value.
  void push_shared(PickleValue*& shared, Kind kind, std::int64_t integer = 0) {
    if (shared == nullptr) {
      shared = &make(kind);
      shared->integer = integer;
    }
    push_value(shared);
  }
  void push_value(PickleValue* value) {
    limit(stack_.size(), kMaxValues, "values on the stack");
    stack_.push_back(value);
  }
  void limit(std::size_t count, std::size_t most, const char* what) const {
    if (count >= most) refuse("at most " + std::to_string(most) + " " + what, "more");
  }
  void push_int(std::int64_t integer) { push(Kind::kInt).integer = integer; }

  PickleValue* pop() {
    if (stack_.size() <= floor()) refuse("a value on the stack", "none");
    PickleValue* const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top(const char* expected) const {
    if (stack_.size() <= floor()) refuse(expected, "none");
    return *stack_.back();
  }
  PickleValue& top(Kind kind, const char* expected) const {
    PickleValue& value = top(expected);
    if (!value.is(kind)) refuse(expected, "another value");
    return value;
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  // The values above the last mark, which goes away.
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) refuse("a mark on the stack", "none");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(begin, stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  bool push_scalar(std::uint8_t opcode) {
    switch (opcode) {
      case 'N':
        push_shared(none_, Kind::kNone);
        return true;
      case 0x88:
        push_shared(true_, Kind::kBool, 1);
        return true;
      case 0x89:
        push_shared(false_, Kind::kBool);
        return true;
      case 'K':
        push_int(reader_.take<std::uint8_t>());
        return true;
      case 'M':
        push_int(reader_.take<std::uint16_t>());
        return true;
      case 'J':
        push_int(reader_.take<std::int32_t>());
        return true;
      case 0x8A:
        push_long(reader_.take<std::uint8_t>());
        return true;
      case 0x8B:
        push_long(reader_.take<std::uint32_t>());
        return true;
      case 'G':
        push_float();
        return true;
      default:
        return false;
    }
  }

  void push_long(std::uint64_t length) {
    const std::string_view bytes = as_text(reader_.take_bytes(length));
    if (length > 8) {
      push(Kind::kBigInt).text = bytes;
      return;
    }
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bits |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    const int unused = 64 - 8 * static_cast<int>(length);
    push_int(length == 0 ? 0 : static_cast<std::int64_t>(bits << unused) >> unused);
  }

  void push_float() {  // the only big-endian number of the format
    std::uint64_t bits = 0;
    for (const std::byte byte : reader_.take_bytes(8)) {
      bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
    }
    push(Kind::kFloat).real = std::bit_cast<double>(bits);
  }

  bool push_text(std::uint8_t opcode) {
    std::uint64_t length = 0;
    switch (opcode) {
      case 'X':
        length = reader_.take<std::uint32_t>();
        break;
      case 0x8C:
        length = reader_.take<std::uint8_t>();
        break;
      case 0x8D:
        length = reader_.take<std::uint64_t>();
        break;
      default:
        return false;
    }
    push_text_of(as_text(reader_.take_bytes(length)));
    return true;
  }

  // A text that is no UTF-8 (Python writes lone surrogates) is nobody's name.
  void push_text_of(std::string_view text) {
    push(is_utf8(text) ? Kind::kString : Kind::kBytes).text = text;
  }

  bool push_bytes(std::uint8_t opcode) {
    switch (opcode) {
      case 'U':  // texts of Python 2
        push_text_of(as_text(reader_.take_bytes(reader_.take<std::uint8_t>())));
        return true;
      case 'T':
        push_text_of(as_text(reader_.take_bytes(reader_.take<std::uint32_t>())));
        return true;
      case 'C':
        push(Kind::kBytes).text = as_text(reader_.take_bytes(reader_.take<std::uint8_t>()));
        return true;
      case 'B':
        push(Kind::kBytes).text = as_text(reader_.take_bytes(reader_.take<std::uint32_t>()));
        return true;
      case 0x8E:
      case 0x96:  // bytearray
        push(Kind::kBytes).text = as_text(reader_.take_bytes(reader_.take<std::uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  bool build_container(std::uint8_t opcode) {
    switch (opcode) {
      case '(':
        push_mark();
        return true;
      case '}':
        push(Kind::kDict);
        return true;
      case ']':
        push(Kind::kList);
        return true;
      case ')':
        push_shared(empty_tuple_, Kind::kTuple);
        return true;
      case 't':
        push_tuple(pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_small_tuple(opcode - 0x84);
        return true;
      case 0x8F:
        push(Kind::kSet);
        return true;
      case 0x91: {  // frozenset
        std::vector<const PickleValue*> items = pop_to_mark();
        push(Kind::kSet).items = std::move(items);
        return true;
      }
      default:
        return false;
    }
  }

  bool fill_container(std::uint8_t opcode) {
    switch (opcode) {
      case 'a':
        append({pop()});
        return true;
      case 'e':
        append(pop_to_mark());
        return true;
      case 's': {
        const PickleValue* const value = pop();
        const PickleValue* const key = pop();
        set_items({key, value});
        return true;
      }
      case 'u':
        set_items(pop_to_mark());
        return true;
      case 0x90:
        add_items(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  void push_mark() {
    limit(marks_.size(), kMaxMarks, "open marks");
    marks_.push_back(stack_.size());
  }

  void push_tuple(std::vector<const PickleValue*> items) {
    push(Kind::kTuple).items = std::move(items);
  }

  void push_small_tuple(int size) {
    std::vector<const PickleValue*> items(static_cast<std::size_t>(size));
    for (auto item = items.rbegin(); item != items.rend(); ++item) *item = pop();
    push_tuple(std::move(items));
  }

  // An object that items are added to is of a class derived from a list or a set: its items are
  // dropped with it.
  void extend(Kind kind, const char* expected, const std::vector<const PickleValue*>& items) {
    PickleValue& container = top(expected);
    if (container.is(Kind::kCall)) return;
    if (!container.is(kind)) refuse(expected, "another value");
    container.items.insert(container.items.end(), items.begin(), items.end());
  }
  void append(const std::vector<const PickleValue*>& items) {
    extend(Kind::kList, "a list to append to", items);
  }
  void add_items(const std::vector<const PickleValue*>& items) {
    extend(Kind::kSet, "a set to add items to", items);
  }

  // An object that items are set on is of a class derived from dict, and may hold the weights.
  void set_items(const std::vector<const PickleValue*>& items) {
    constexpr const char* kExpected = "a dict to set items of";
    PickleValue& dict = top(kExpected);
    if (dict.is(Kind::kCall)) dict.kind = Kind::kDict;
    if (!dict.is(Kind::kDict)) refuse(kExpected, "another value");
    if (items.size() % 2 != 0) refuse("keys and values in pairs", "a key without a value");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }

  bool use_memo(std::uint8_t opcode) {
    switch (opcode) {
      case 'q':
        put(reader_.take<std::uint8_t>());
        return true;
      case 'r':
        put(reader_.take<std::uint32_t>());
        return true;
      case 0x94:
        put(static_cast<std::uint32_t>(memo_.size()));
        return true;
      case 'h':
        get(reader_.take<std::uint8_t>());
        return true;
      case 'j':
        get(reader_.take<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }

  void put(std::uint32_t index) {
    if (stack_.size() <= floor()) refuse("a value to remember", "none");
    limit(memo_.size(), kMaxValues, "remembered values");
    memo_[index] = stack_.back();
  }

  void get(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse("a remembered value", "number " + std::to_string(index));
    push_value(found->second);
  }

  bool build_object(std::uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const std::string module = take_line();
        push_global(module, take_line());
        return true;
      }
      case 0x93: {
        const std::string_view name = top(Kind::kString, "the name of a global").text;
        pop();
        const std::string_view module = top(Kind::kString, "the module of a global").text;
        pop();
        push_global(module, name);
        return true;
      }
      case 'R':
      case 0x81:  // cls.__new__(cls, *arguments)
        reduce();
        return true;
      case 0x92:  // the same with keyword arguments
        top(Kind::kDict, "a dict of keyword arguments");
        pop();
        reduce();
        return true;
      case 'b':
        build();
        return true;
      case 'Q': {
        const PickleValue& id = pop_arguments();
        push(Kind::kPersistent).arguments = &id;
        result_.persistent.push_back(stack_.back());
        return true;
      }
      default:
        return false;
    }
  }

  std::string take_line() {
    std::string line;
    for (char next = reader_.take<char>(); next != '\n'; next = reader_.take<char>()) {
      if (line.size() == kMaxGlobal) refuse(kShortGlobal, "a longer one");
      line += next;
    }
    return line;
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string global = std::string(module).append(1, '.').append(name);
    if (is_getattr(global)) {
      open_getattr_ = true;
    } else if (could_run_code(global)) {
      refuse_global(global);
    }
    push(Kind::kGlobal).text = *result_.globals.insert(global).first;
  }

  const PickleValue& pop_arguments() {
    const PickleValue& arguments = top(Kind::kTuple, "a tuple of arguments");
    pop();
    return arguments;
  }

  void reduce() {
    const PickleValue& arguments = pop_arguments();
    const PickleValue& callee = top("a global to call");
    if (!callee.is(Kind::kGlobal) && !callee.is(Kind::kCall) && !callee.is(Kind::kPersistent)) {
      refuse("a global to call", "another value");
    }
    pop();
    if (callee.is(Kind::kGlobal) && is_getattr(callee.text)) {
      push_member(callee, arguments);
      return;
    }
    if (callee.text == "collections.OrderedDict" && arguments.items.empty()) {
      push(Kind::kDict).text = callee.text;
      return;
    }
    PickleValue& call = push(Kind::kCall);
    call.text = class_name(callee);
    call.arguments = &arguments;
  }

  // Old files name a class of a module by a persistent id: ("module", class, file, source).
  static std::string_view class_name(const PickleValue& callee) {
    if (!callee.is(Kind::kPersistent)) return callee.text;
    const auto& id = callee.arguments->items;
    return id.size() > 1 && id[1]->is(Kind::kGlobal) ? id[1]->text : "an object";
  }

  // Some versions of Python pickle a member of an enumeration as getattr(Class, "NAME"), and a
  // class within a class as getattr(Outer, "Class"): a global by its path, with the same rule.
  void push_member(const PickleValue& callee, const PickleValue& arguments) {
    const auto& items = arguments.items;
    const bool member = items.size() == 2 && items[0]->is(Kind::kGlobal) &&
                        items[1]->is(Kind::kString) && !items[1]->text.starts_with("_") &&
                        items[1]->text.find('.') == std::string_view::npos;
    if (!member) refuse_global(callee.text);
    open_getattr_ = false;
    if (items[0]->text.size() + items[1]->text.size() > kMaxGlobal) {
      refuse(kShortGlobal, "a longer one");
    }
    push_global(items[0]->text, items[1]->text);
  }

  // Attributes of an OrderedDict (PyTorch's _metadata) are nobody's. A plain dict has none.
  void build() {
    const PickleValue* const state = pop();
    PickleValue& object = top("an object to set attributes of");
    if (object.is(Kind::kCall)) {
      object.state = state;
    } else if (object.text.empty() || (!object.is(Kind::kDict) && !object.is(Kind::kGlobal))) {
      refuse("an object to set attributes of", "a plain value");
    }
  }

  bool control(std::uint8_t opcode) {
    constexpr std::uint8_t kNewestProtocol = 5;
    if (opcode == 0x80) {
      const auto protocol = reader_.take<std::uint8_t>();
      if (protocol < 2 || protocol > kNewestProtocol) {
        refuse("pickle protocol 2 to 5", std::to_string(protocol));
      }
      return true;
    }
    if (opcode == 0x95) {  // frame: only its length follows
      const auto length = reader_.take<std::uint64_t>();
      if (length > reader_.remaining()) {
        refuse("a frame of at most " + std::to_string(reader_.remaining()) + " bytes",
               std::to_string(length));
      }
      return true;
    }
    switch (opcode) {
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        push_value(&top("a value to repeat"));
        return true;
      default:
        return false;
    }
  }

  ByteReader reader_;
  bool open_getattr_ = false;  // a getattr that nothing was done with yet
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint32_t, PickleValue*> memo_;  // ordered: numbers in a file cannot make it slow
  PickleValue* none_ = nullptr;
  PickleValue* true_ = nullptr;
  PickleValue* false_ = nullptr;
  PickleValue* empty_tuple_ = nullptr;
  Pickle result_;
};

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::kDict) return nullptr;
  const PickleValue* found = nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->is(Kind::kString) && items[i]->text == key) found = items[i + 1];
  }
  return found;
}

Pickle read_pickle(std::span<const std::byte> bytes, const std::string& where) {
  return Machine(bytes, where).run();
}

}  // namespace sam_rlx
