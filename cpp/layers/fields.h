#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/error.h"

// Configs and options list their fields once:
//
//   template <class V>
//   void fields(V& v) {
//     v("embed_dim", embed_dim, 1, 4096);  // upstream's name, member, smallest, largest
//     v("scalp", scalp, 0, 7, kHasDefault);  // and what else is true of it
//     v("trunk", trunk);                   // a part with fields of its own, a bool or a text
//     v.told("mlp_dim", [&] { return mlp_dim(); });  // follows from the others: only told
//   }
//
// Whoever reads, writes, checks or explains them is a visitor: an object that is called with a
// Field and the value.

namespace sam_rlx {

// Sizes and lists come from files: limits before anything is allocated for them.
inline constexpr std::int64_t kMaxConfigSize = 1 << 20;
inline constexpr std::size_t kMaxListLength = 1024;

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// What is true of a field, or of all fields of a part.
enum FieldFlags : unsigned {
  kNoFlags = 0,
  kHasDefault = 1,   // a file may leave it out
  kSetting = 2,      // no weight depends on it: another value may replace that of the file
  kNotInFolder = 4,  // transformers has no key for it: its folders hold what the tensors tell
};
constexpr FieldFlags operator|(FieldFlags a, FieldFlags b) {
  return static_cast<FieldFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

struct Field {
  std::string path;         // "trunk.embed_dim"
  double min = 0, max = 0;  // of each number
  FieldFlags flags = kNoFlags;
  const char* help = "";

  bool is(FieldFlags flag) const { return (flags & flag) != 0; }
  std::string_view name() const { return std::string_view(path).substr(path.rfind('.') + 1); }
};

struct AnyFields {
  template <class... Args>
  void operator()(Args&&...) {}
  template <class... Args>
  void told(Args&&...) {}
};
template <class T>
concept HasFields = requires(T& config, AnyFields& v) { config.fields(v); };

// Walks the fields of a config and of its parts.
template <class Visitor>
class FieldWalk {
 public:
  explicit FieldWalk(Visitor& visitor, std::string prefix = "", FieldFlags flags = kNoFlags)
      : visitor_(visitor), prefix_(std::move(prefix)), flags_(flags) {}

  template <class T>
  void operator()(const char* name, T& value, double min, double max, const char* help = "") {
    visitor_(Field{prefix_ + name, min, max, flags_, help}, value);
  }
  template <class T>
  void operator()(const char* name, T& value, double min, double max, FieldFlags flags) {
    visitor_(Field{prefix_ + name, min, max, flags_ | flags}, value);
  }
  // Parts, flags and texts.
  template <class T>
  void operator()(const char* name, T& value, const char* help = "") {
    if constexpr (HasFields<T>) {
      part(name, value, kNoFlags);
    } else {
      visitor_(Field{.path = prefix_ + name, .flags = flags_ | kHasDefault, .help = help}, value);
    }
  }
  template <class T>
  void operator()(const char* name, T& value, FieldFlags flags) {
    if constexpr (HasFields<T>) {
      part(name, value, flags);
    } else {
      visitor_(Field{.path = prefix_ + name, .flags = flags_ | flags | kHasDefault}, value);
    }
  }
  template <class T>
    requires HasFields<T>
  void operator()(const char* name, std::optional<T>& value) {
    const std::nullopt_t& absent = std::nullopt;
    if (value) {
      part(name, *value, kHasDefault);
    } else {
      told(name, absent);
    }
  }
  // Visitors that set or check fields say kTold = false: nothing is called for them.
  template <class T>
  void told(const char* name, const T& value) {
    if constexpr (Visitor::kTold) {
      const Field field{.path = prefix_ + name, .flags = kHasDefault};
      if constexpr (std::is_invocable_v<const T&>) {
        visitor_(field, value());
      } else {
        visitor_(field, value);
      }
    }
  }

 private:
  template <class T>
  void part(const char* name, T& value, FieldFlags flags) {
    FieldWalk walk(visitor_, prefix_ + name + ".", flags_ | flags);
    value.fields(walk);
  }

  Visitor& visitor_;
  std::string prefix_;
  FieldFlags flags_;
};

template <class Config, class Visitor>
void visit_fields(Config& config, Visitor&& visitor, const std::string& prefix = "") {
  FieldWalk<std::remove_reference_t<Visitor>> walk(visitor, prefix);
  config.fields(walk);
}

// Raises E unless a value, and of a list each, is in the range of the field. NaN is not.
std::string range_text(const Field& field);
std::string number_text(double number);

template <class E, class T>
void check_field(const std::string& where, const Field& field, const T& value) {
  if constexpr (requires { value.begin(); }) {
    if constexpr (!std::is_same_v<T, std::string>) {
      for (const auto& each : value) check_field<E>(where, field, each);
    }
  } else if constexpr (requires { value.has_value(); }) {
    if (value) check_field<E>(where, field, *value);
  } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    const auto number = static_cast<double>(value);
    if (number >= field.min && number <= field.max && number - number == 0.0) return;
    fail<E>(where, range_text(field), number_text(number));
  }
}

// Checks every number of a config.
struct CheckFields {
  static constexpr bool kTold = false;
  std::string where;

  template <class T>
  void operator()(const Field& field, const T& value) const {
    check_field<CheckpointError>(where + ": " + field.path, field, value);
  }
};

}  // namespace sam_rlx
