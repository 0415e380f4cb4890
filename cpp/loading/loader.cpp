#include "loading/loader.h"

#include <algorithm>
#include <iterator>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/key_map.h"

namespace sam_rlx {
namespace {

bool same_shape(const Shape& shape, const std::vector<std::int64_t>& dims) {
  if (static_cast<std::size_t>(shape.rank()) != dims.size()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != dims[static_cast<std::size_t>(axis)]) return false;
  }
  return true;
}

// Whole numbers stand for weights only with scales that other tensors hold.
bool has_integers(const TensorEntry& entry) {
  constexpr DType kWhole[] = {DType::kI64, DType::kI32, DType::kI16,
                              DType::kI8,  DType::kU8,  DType::kBool};
  return std::find(std::begin(kWhole), std::end(kWhole), entry.dtype) != std::end(kWhole) ||
         std::any_of(entry.parts.begin(), entry.parts.end(), has_integers);
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
  ShortList lines(kMaxLines);
  std::unordered_set<std::string_view> known;  // the model's own names, none of the file's
  for (const auto& [name, shape] : parameters) {
    known.insert(name);
    const TensorEntry* const entry = state_dict.find(name);
    if (entry == nullptr) {
      report.missing.push_back(name);
      lines.add(name + ": expected shape " + shape.str() + ", found no tensor");
    } else if (!same_shape(shape, entry->dims)) {
      report.misshaped.push_back(name + ": expected shape " + shape.str() + ", found " +
                                 dims_text(entry->dims));
      lines.add(report.misshaped.back());
    } else if (has_integers(*entry)) {
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
    if (!ignored && options.strict) {
      lines.add(lines.full() ? ""
                             : printable(entry.name) + ": expected no tensor, found shape " +
                                   dims_text(entry.dims));
    }
  }
  report.skipped = state_dict.skipped();
  if (!lines.empty()) raise_problems(report, lines, state_dict);
  return report;
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
  const bool stays = std::any_of(packed_.begin(), packed_.end(), [&](std::string_view pattern) {
    return lies_below(pattern, path);
  });
  if (!format || !stays || !entry.parts.empty()) {
    parameter(path, matrix.value, shape);
    return;
  }
  const auto bytes = static_cast<std::size_t>(stored_bytes(entry));
  matrix.blocks = {*format, shape[0], shape[1], allocate_aligned(bytes)};
  copy_stored(state_dict_, entry, static_cast<std::byte*>(matrix.blocks.bytes.get()));
  packed_numbers_[block_facts(*format).name] += shape.numel();
}

}  // namespace sam_rlx
