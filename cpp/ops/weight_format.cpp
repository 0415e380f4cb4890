#include "ops/weight_format.h"

#include "core/error.h"

namespace sam_rlx {

WeightFormat weight_format_named(const std::string& name) {
  for (const WeightFormat format :
       {WeightFormat::kFloat32, WeightFormat::kBFloat16, WeightFormat::kInt8}) {
    if (name == weight_format_name(format)) return format;
  }
  fail<UnsupportedError>("precision", "float32, bfloat16 or int8", name);
}

const char* weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBFloat16:
      return "bfloat16";
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kFloat32:
      break;
  }
  return "float32";
}

}  // namespace sam_rlx
