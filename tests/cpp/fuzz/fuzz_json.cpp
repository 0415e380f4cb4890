// libFuzzer target: any bytes as a JSON text, every value of which is used.

#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/json.h"
#include "core/error.h"

namespace {

// Sum over all values, so that each is looked at.
double use(const sam_rlx::Json& json, const std::string& where) {
  double sum = 0;
  if (json.is_array()) {
    for (const sam_rlx::Json& item : json.array(where)) sum += use(item, where);
  } else if (json.is_object()) {
    for (const auto& [key, member] : json.object(where)) {
      if (json.find(key) != &member) __builtin_trap();
      sum += use(member, where);
    }
  } else if (json.is_string()) {
    sum = static_cast<double>(json.string(where).size());
  } else if (json.is_boolean()) {
    sum = json.boolean(where) ? 1 : 0;
  } else if (!json.is_null()) {
    sum = json.number(where);
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const double sum = use(sam_rlx::Json::parse(text, "fuzz"), "fuzz");
    static_cast<void>(sum);
  } catch (const sam_rlx::Error&) {
  }
  return 0;
}
