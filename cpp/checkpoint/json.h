#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sam_rlx {

// A parsed JSON value. Strict: RFC 8259, valid UTF-8, no duplicate keys, at most 32 levels and a
// million values. Accessors raise CheckpointError with `where` when the type is another.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order of the text

  // Raises CheckpointError with `where` when the text is not one JSON value.
  static Json parse(std::string_view text, const std::string& where);

  Json() = default;
  template <class T>
  explicit Json(T value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  bool boolean(const std::string& where) const;
  std::int64_t integer(const std::string& where) const;  // a whole number that fits 64 bits
  double number(const std::string& where) const;
  const std::string& string(const std::string& where) const;
  const Array& array(const std::string& where) const;
  const Object& object(const std::string& where) const;

  // Member of an object; null when it has none of this name or is not an object.
  const Json* find(std::string_view key) const;
  // Member that must be there.
  const Json& at(std::string_view key, const std::string& where) const;
  // Member of an object, null if it is new. Anything but an object becomes an empty one first.
  Json& member(std::string_view key);

 private:
  template <class T>
  const T& as(const char* expected, const std::string& where) const;
  const char* kind() const;

  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> value_;
};

// A text, which is UTF-8, as a JSON string.
std::string json_string(std::string_view text);

}  // namespace sam_rlx
