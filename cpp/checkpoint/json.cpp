#include "checkpoint/json.h"

#include <algorithm>
#include <charconv>
#include <version>

#if !defined(__cpp_lib_to_chars)
#include <cmath>
#include <locale>
#include <sstream>
#endif

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr int kMaxDepth = 32;
constexpr int kMaxValues = 1'000'000;

// False if it is out of range. Streams are the last choice: where the C++ library is linked into
// the extension, their locale can be another one's, of a library that the process also holds.
bool read_double(std::string_view digits, double& result) {
#if defined(__cpp_lib_to_chars)
  return std::from_chars(digits.data(), digits.data() + digits.size(), result).ec == std::errc();
#else
  std::istringstream stream{std::string(digits)};
  stream.imbue(std::locale::classic());
  return (stream >> result) && std::isfinite(result);
#endif
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Json document() {
    if (!is_utf8(text_)) fail<CheckpointError>(where_, "JSON in UTF-8", "other bytes");
    Json result = value(0);
    skip_space();
    if (position_ != text_.size()) refuse("the end of the JSON text");
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    const std::string found =
        position_ < text_.size() ? quoted(text_.substr(position_, 1)) : "its end";
    fail<CheckpointError>(where_ + ", JSON byte " + std::to_string(position_), expected, found);
  }

  bool at_end() const { return position_ >= text_.size(); }
  bool next_is(char character) const { return !at_end() && text_[position_] == character; }
  bool next_is_digit() const {
    return !at_end() && text_[position_] >= '0' && text_[position_] <= '9';
  }
  bool accept(char character) {
    if (!next_is(character)) return false;
    ++position_;
    return true;
  }
  void expect(char character) {
    if (!accept(character)) refuse(std::string("'") + character + "'");
  }
  void skip_space() {
    while (next_is(' ') || next_is('\n') || next_is('\r') || next_is('\t')) ++position_;
  }

  Json value(int depth) {
    if (depth == kMaxDepth) refuse("at most " + std::to_string(kMaxDepth) + " levels");
    if (++values_ > kMaxValues) refuse("at most " + std::to_string(kMaxValues) + " values");
    skip_space();
    if (next_is('{')) return Json(object(depth));
    if (next_is('[')) return Json(array(depth));
    if (next_is('"')) return Json(string());
    if (next_is('-') || next_is_digit()) return number();
    if (accept_word("true")) return Json(true);
    if (accept_word("false")) return Json(false);
    if (accept_word("null")) return Json();
    refuse("a JSON value");
  }

  bool accept_word(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  Json::Array array(int depth) {
    Json::Array items;
    expect('[');
    skip_space();
    if (accept(']')) return items;
    do {
      items.push_back(value(depth + 1));
      skip_space();
    } while (accept(','));
    expect(']');
    return items;
  }

  Json::Object object(int depth) {
    Json::Object members;
    expect('{');
    skip_space();
    if (accept('}')) return members;
    do {
      skip_space();
      std::string key = string();
      skip_space();
      expect(':');
      members.emplace_back(std::move(key), value(depth + 1));
      skip_space();
    } while (accept(','));
    expect('}');
    refuse_duplicates(members);
    return members;
  }

  void refuse_duplicates(const Json::Object& members) const {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& member : members) keys.push_back(member.first);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) {
      fail<CheckpointError>(where_, "each JSON key once", quoted(*twice) + " twice");
    }
  }

  std::string string() {
    expect('"');
    std::string result;
    while (!next_is('"')) {
      if (at_end() || static_cast<unsigned char>(text_[position_]) < 0x20) {
        refuse("the rest of a JSON string");
      }
      if (accept('\\')) {
        escape(result);
      } else {
        result += text_[position_++];
      }
    }
    ++position_;
    return result;
  }

  void escape(std::string& result) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (accept('u')) {
      append_utf8(code_point(), result);
      return;
    }
    const std::size_t letter = at_end() ? std::string_view::npos : kLetters.find(text_[position_]);
    if (letter == std::string_view::npos) refuse("a JSON escape");
    ++position_;
    result += kMeanings[letter];
  }

  std::uint32_t code_point() {
    const std::uint32_t first = hex4();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || !accept('\\') || !accept('u')) refuse("a pair of surrogates");
    const std::uint32_t second = hex4();
    if (second < 0xDC00 || second > 0xDFFF) refuse("a pair of surrogates");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  std::uint32_t hex4() {
    const std::string_view digits = text_.substr(std::min(position_, text_.size()), 4);
    std::uint32_t result = 0;
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, result, 16);
    if (digits.size() != 4 || parsed.ptr != end) refuse("four hexadecimal digits");
    position_ += 4;
    return result;
  }

  static void append_utf8(std::uint32_t code, std::string& result) {
    const auto tail = [&](int shift) {
      result += static_cast<char>(0x80 | ((code >> shift) & 0x3F));
    };
    if (code < 0x80) {
      result += static_cast<char>(code);
    } else if (code < 0x800) {
      result += static_cast<char>(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      result += static_cast<char>(0xE0 | (code >> 12));
      tail(6);
      tail(0);
    } else {
      result += static_cast<char>(0xF0 | (code >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  void digits() {
    if (!next_is_digit()) refuse("a digit");
    while (next_is_digit()) ++position_;
  }

  Json number() {
    const std::size_t begin = position_;
    accept('-');
    if (accept('0')) {
      if (next_is_digit()) refuse("no digit after a leading zero");
    } else {
      digits();
    }
    bool whole = true;
    if (accept('.')) {
      whole = false;
      digits();
    }
    if (accept('e') || accept('E')) {
      whole = false;
      if (!accept('+')) accept('-');
      digits();
    }
    return to_number(text_.substr(begin, position_ - begin), whole);
  }

  Json to_number(std::string_view digits, bool whole) const {
    constexpr std::size_t kLongest = 64;
    if (digits.size() > kLongest) refuse("a number of at most 64 characters");
    if (whole) {
      std::int64_t result = 0;
      const char* const end = digits.data() + digits.size();
      if (std::from_chars(digits.data(), end, result).ec == std::errc()) return Json(result);
    }
    double result = 0;
    if (!read_double(digits, result)) refuse("a number in the range of a double");
    return Json(result);
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t position_ = 0;
  int values_ = 0;
};

}  // namespace

Json Json::parse(std::string_view text, const std::string& where) {
  return Parser(text, where).document();
}

const char* Json::kind() const {
  constexpr const char* kNames[] = {"null",     "a boolean", "a whole number", "a number",
                                    "a string", "an array",  "an object"};
  return kNames[value_.index()];
}

template <class T>
const T& Json::as(const char* expected, const std::string& where) const {
  const T* const pointer = std::get_if<T>(&value_);
  if (pointer == nullptr) fail<CheckpointError>(where, expected, kind());
  return *pointer;
}

bool Json::boolean(const std::string& where) const { return as<bool>("a boolean", where); }

std::int64_t Json::integer(const std::string& where) const {
  return as<std::int64_t>("a whole number", where);
}

double Json::number(const std::string& where) const {
  if (const auto* const whole = std::get_if<std::int64_t>(&value_)) {
    return static_cast<double>(*whole);
  }
  return as<double>("a number", where);
}

const std::string& Json::string(const std::string& where) const {
  return as<std::string>("a string", where);
}

const Json::Array& Json::array(const std::string& where) const {
  return as<Array>("an array", where);
}

const Json::Object& Json::object(const std::string& where) const {
  return as<Object>("an object", where);
}

const Json* Json::find(std::string_view key) const {
  const Object* const members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const auto& [name, member] : *members) {
    if (name == key) return &member;
  }
  return nullptr;
}

Json& Json::member(std::string_view key) {
  if (!is_object()) value_ = Object();
  Object& members = std::get<Object>(value_);
  for (auto& [name, value] : members) {
    if (name == key) return value;
  }
  return members.emplace_back(std::string(key), Json()).second;
}

const Json& Json::at(std::string_view key, const std::string& where) const {
  object(where);
  const Json* const member = find(key);
  if (member == nullptr) {
    fail<CheckpointError>(where, "a member \"" + std::string(key) + "\"", "none");
  }
  return *member;
}

std::string json_string(std::string_view text) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20) {
      result += std::string("\\u00") + kDigits[code >> 4] + kDigits[code & 15];
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result + '"';
}

}  // namespace sam_rlx
