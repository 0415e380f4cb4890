#include "checkpoint/pickle.h"

#include <bit>
#include <map>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMaxSize = std::size_t{64} << 20;
constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxMarks = 1000;
constexpr std::size_t kMaxArguments = 16;

// The pickle machine: a stack of values, marks into it, and a memo.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& where,
          bool (*allowed)(std::string_view))
      : reader_(bytes.first(std::min(bytes.size(), kMaxSize)), where), allowed_(allowed) {}

  Pickle run() {
    for (;;) {
      const auto opcode = reader_.take<std::uint8_t>();
      if (opcode == '.') break;
      if (!push_scalar(opcode) && !push_text(opcode) && !build_container(opcode) &&
          !use_memo(opcode) && !build_object(opcode) && !control(opcode)) {
        refuse("an opcode of a state dict", "opcode " + std::to_string(opcode));
      }
    }
    result_.root = pop();
    result_.size = reader_.position();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    fail<CheckpointError>(reader_.where() + ", pickle byte " + std::to_string(reader_.position()),
                          expected, found);
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
  PickleValue& top(Kind kind, const char* expected) const {
    if (stack_.size() <= floor() || !stack_.back()->is(kind)) refuse(expected, "another value");
    return *stack_.back();
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
        push_long();
        return true;
      case 'G':
        push_float();
        return true;
      default:
        return false;
    }
  }

  void push_long() {
    const auto length = reader_.take<std::uint8_t>();
    const std::string_view bytes = as_text(reader_.take_bytes(length));
    if (length > 8) {
      push(Kind::kBigInt).text = bytes;
      return;
    }
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bits |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    const int unused = 64 - 8 * length;
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
    const std::string_view text = as_text(reader_.take_bytes(length));
    if (!is_utf8(text)) refuse("text in UTF-8", "other bytes");
    push(Kind::kString).text = text;
    return true;
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

  void append(const std::vector<const PickleValue*>& items) {
    PickleValue& list = top(Kind::kList, "a list to append to");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<const PickleValue*>& items) {
    PickleValue& dict = top(Kind::kDict, "a dict to set items of");
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
        reduce();
        return true;
      case 'b':
        build();
        return true;
      case 'Q': {
        const PickleValue& id = pop_arguments();
        push(Kind::kPersistent).items = id.items;
        result_.persistent.push_back(stack_.back());
        return true;
      }
      default:
        return false;
    }
  }

  std::string take_line() {
    constexpr std::size_t kLongest = 256;
    std::string line;
    for (char next = reader_.take<char>(); next != '\n'; next = reader_.take<char>()) {
      if (line.size() == kLongest) refuse("a global's name of at most 256 bytes", "a longer one");
      line += next;
    }
    return line;
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string global = std::string(module).append(1, '.').append(name);
    if (!allowed_(global)) {
      refuse("only tensors, containers and plain values", "the global " + printable(global));
    }
    push(Kind::kGlobal).text = *result_.globals.insert(global).first;
  }

  // The limit keeps a short file from copying one long tuple over and over.
  const PickleValue& pop_arguments() {
    const PickleValue& arguments = top(Kind::kTuple, "a tuple of arguments");
    limit(arguments.items.size(), kMaxArguments, "arguments");
    pop();
    return arguments;
  }

  void reduce() {
    const PickleValue& arguments = pop_arguments();
    const PickleValue& callee = top(Kind::kGlobal, "a global to call");
    pop();
    if (callee.text == "collections.OrderedDict") {
      if (!arguments.items.empty()) refuse("OrderedDict without arguments", "arguments");
      push(Kind::kDict).ordered_dict = true;
      return;
    }
    PickleValue& call = push(Kind::kCall);
    call.text = callee.text;
    call.items = arguments.items;
  }

  // An OrderedDict of PyTorch carries an attribute _metadata, which nobody needs.
  void build() {
    top(Kind::kDict, "a dict of attributes");
    pop();
    if (!top(Kind::kDict, "attributes for an OrderedDict only").ordered_dict) {
      refuse("attributes for an OrderedDict only", "attributes for a dict");
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
    return false;
  }

  ByteReader reader_;
  bool (*allowed_)(std::string_view);
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

Pickle read_pickle(std::span<const std::byte> bytes, const std::string& where,
                   bool (*allowed)(std::string_view global)) {
  return Machine(bytes, where, allowed).run();
}

}  // namespace sam_rlx
