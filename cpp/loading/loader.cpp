#include "loading/loader.h"

#include <algorithm>
#include <iterator>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/key_map.h"

namespace sam_rlx {
namespace {

// ggml keeps no outermost sizes of 1.
bool same_shape(const Shape& shape, const std::vector<std::int64_t>& dims) {
  if (dims.size() > static_cast<std::size_t>(shape.rank())) return false;
  int axis = 0;
  while (axis < shape.rank() && shape[axis] == 1) ++axis;
  auto size = std::find_if(dims.begin(), dims.end(), [](std::int64_t each) { return each != 1; });
  if (shape.rank() - axis != dims.end() - size) return false;
  for (; axis < shape.rank(); ++axis, ++size) {
    if (shape[axis] != *size) return false;
  }
  return true;
}

bool has_floats(const TensorEntry& entry) {
  return dtype_kind(entry.dtype) == NumberKind::kFloat &&
         std::all_of(entry.parts.begin(), entry.parts.end(), has_floats);
}

// What a file has under the name of a tensor that it lacks.
std::string skipped_as(const std::string& name, const std::vector<std::string>& skipped) {
  const std::string begin = name + ": ";
  for (const std::string& line : skipped) {
    const std::size_t at = line.find(begin);
    if (at == 0 || (at != std::string::npos && line[at - 1] == '.')) {
      return line.substr(at + begin.size());
    }
  }
  return "no tensor";
}

// Whether a tensor stands beside the weight of a layer: scales, masks or an adapter under a name
// that nobody knows. Without it the layer computes something else.
bool lies_in_layer(const std::string& name, const std::unordered_set<std::string_view>& known) {
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1)) {
    if (known.contains(name.substr(0, dot) + ".weight")) return true;
  }
  return false;
}

[[noreturn]] void raise_problems(const LoadReport& report, const ShortList& lines,
                                 const StateDict& state_dict) {
  std::string text = state_dict.source + ": expected the parameters of the model, found " +
                     std::to_string(report.missing.size()) + " missing, " +
                     std::to_string(report.misshaped.size()) + " misshaped, " +
                     std::to_string(report.unexpected.size()) + " unexpected";
  for (const std::string& line : lines.lines()) text += "\n  " + line;
  throw CheckpointError(text);
}

}  // namespace

LoadReport check_parameters(const std::vector<std::pair<std::string, Shape>>& parameters,
                            const StateDict& state_dict, const LoadOptions& options) {
  constexpr std::size_t kMaxLines = 18;  // with the first and the count 20
  LoadReport report;
  report.skipped = state_dict.skipped();
  ShortList lines(kMaxLines);
  std::unordered_set<std::string_view> known;  // the model's own names, none of the file's
  for (const auto& [name, shape] : parameters) {
    known.insert(name);
    const TensorEntry* const entry = state_dict.find(name);
    if (entry == nullptr) {
      report.missing.push_back(name);
      lines.add(name + ": expected shape " + shape.str() + ", found " +
                skipped_as(name, report.skipped));
    } else if (!same_shape(shape, entry->dims)) {
      report.misshaped.push_back(name + ": expected shape " + shape.str() + ", found " +
                                 dims_text(entry->dims));
      lines.add(report.misshaped.back());
    } else if (!has_floats(*entry)) {
      report.misshaped.push_back(name + ": expected floating-point numbers, found " +
                                 dtype_name(entry->dtype));
      lines.add(report.misshaped.back());
    }
  }
  for (const TensorEntry& entry : state_dict.tensors()) {
    if (known.contains(entry.name)) continue;
    const bool ignored =
        std::any_of(options.ignored.begin(), options.ignored.end(),
                    [&](std::string_view pattern) { return matches_key(pattern, entry.name); });
    (ignored ? report.ignored : report.unexpected).push_back(entry.name);
    if (ignored || (!options.strict && !lies_in_layer(entry.name, known))) continue;
    const char* const expected = options.strict
                                     ? ": expected no tensor, found shape "
                                     : ": expected nothing else in a layer, found shape ";
    lines.add(lines.full() ? "" : printable(entry.name) + expected + dims_text(entry.dims));
  }
  if (!lines.empty()) raise_problems(report, lines, state_dict);
  return report;
}

void restore_shapes(const std::vector<std::pair<std::string, Shape>>& parameters,
                    StateDict& state_dict) {
  for (const auto& [name, shape] : parameters) {
    const TensorEntry* const entry = state_dict.find(name);
    if (entry == nullptr || !same_shape(shape, entry->dims)) continue;
    std::vector<std::int64_t> dims;
    for (int axis = 0; axis < shape.rank(); ++axis) dims.push_back(shape[axis]);
    if (dims != entry->dims) state_dict.reshape(name, std::move(dims));
  }
}

const TensorEntry& ParameterCopier::checked(const std::string& path, const Shape& shape) const {
  const TensorEntry* const entry = state_dict_.find(path);
  if (entry == nullptr || !same_shape(shape, entry->dims)) {
    fail_internal(path + ": a parameter was copied before it was checked");
  }
  return *entry;
}

void ParameterCopier::parameter(const std::string& path, Tensor& value, const Shape& shape) {
  value = Tensor(shape);
  copy_as_float(state_dict_, checked(path, shape), value.data());
}

void ParameterCopier::matrix_parameter(const std::string& path, Matrix matrix, const Shape& shape) {
  const TensorEntry& entry = checked(path, shape);
  const std::optional<BlockFormat> format = block_format(entry.dtype);
  const bool stays =
      std::any_of(options_.packed.begin(), options_.packed.end(),
                  [&](std::string_view pattern) { return lies_below(pattern, path); });
  if (!format || !stays || !entry.parts.empty()) {
    const float* const floats = options_.mapped ? mapped_floats(state_dict_, entry) : nullptr;
    if (floats == nullptr) return parameter(path, matrix.value, shape);
    matrix.value = Tensor::mapped({floats, shape});
    return;
  }
  const auto bytes = static_cast<std::size_t>(stored_bytes(entry));
  matrix.blocks = {*format, shape[0], shape[1], allocate_aligned(bytes)};
  copy_stored(state_dict_, entry, static_cast<std::byte*>(matrix.blocks.bytes.get()));
  packed_numbers_[block_facts(*format).name] += shape.numel();
}

}  // namespace sam_rlx
