#include "layers/fields.h"

#include <cmath>
#include <cstdio>

namespace sam_rlx {

std::string number_text(double number) {
  char text[32];
  const bool whole = std::floor(number) == number && std::abs(number) < 1e15;
  std::snprintf(text, sizeof(text), whole ? "%.0f" : "%.9g", number);
  return text;
}

std::string range_text(const Field& field) {
  if (std::isfinite(field.max)) return number_text(field.min) + " to " + number_text(field.max);
  return std::isfinite(field.min) ? "at least " + number_text(field.min) : "a finite number";
}

}  // namespace sam_rlx
