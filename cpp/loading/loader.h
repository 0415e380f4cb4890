#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "checkpoint/state_dict.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "layers/layer.h"

namespace sam_rlx {

// What a load saw beside the parameters that it filled.
struct LoadReport {
  std::vector<std::string> missing;     // names that the model has and the file has not
  std::vector<std::string> unexpected;  // names that the file has and the model has not
  std::vector<std::string> misshaped;   // "name: expected shape (2, 3), found (3, 2)"
  std::vector<std::string> ignored;     // left out by LoadOptions::ignored
  std::vector<std::string> skipped;     // of StateDict::skipped
  std::vector<std::string> merged;      // changed by an adapter
  // Numbers of the matrices that stay in the blocks of their file, by format.
  std::map<std::string, std::int64_t> packed;
};

struct LoadOptions {
  bool strict = true;                         // unexpected tensors are an error
  std::span<const std::string_view> ignored;  // patterns of matches_key: no error in any case
  // Patterns of lies_below: matrices of these layers stay in the blocks of their file.
  std::span<const std::string_view> packed;
  // Matrices of float32 are read where they lie: the state dict lives until they are packed.
  bool mapped = false;
};

// Names and shapes of a model's parameters, in the order of its visit.
class ParameterLister final : public ParamVisitor {
 public:
  const std::vector<std::pair<std::string, Shape>>& parameters() const { return parameters_; }

 private:
  void parameter(const std::string& path, Tensor& /*value*/, const Shape& shape) override {
    parameters_.emplace_back(path, shape);
  }
  std::vector<std::pair<std::string, Shape>> parameters_;
};

// Fills each parameter with the tensor of its name, widened to float32 or in blocks.
class ParameterCopier final : public ParamVisitor {
 public:
  ParameterCopier(const StateDict& state_dict, const LoadOptions& options)
      : state_dict_(state_dict), options_(options) {}

  const std::map<std::string, std::int64_t>& packed_numbers() const { return packed_numbers_; }

 private:
  void parameter(const std::string& path, Tensor& value, const Shape& shape) override;
  void matrix_parameter(const std::string& path, Matrix matrix, const Shape& shape) override;
  const TensorEntry& checked(const std::string& path, const Shape& shape) const;

  const StateDict& state_dict_;
  const LoadOptions& options_;
  std::map<std::string, std::int64_t> packed_numbers_;
};

// Compares the parameters of a model with a file. Raises one CheckpointError that counts all
// missing, misshaped and, if strict, unexpected tensors, and lists the first ones: 20 lines.
LoadReport check_parameters(const std::vector<std::pair<std::string, Shape>>& parameters,
                            const StateDict& state_dict, const LoadOptions& options);

// Gives tensors that lack outermost axes of 1 the shapes of the parameters.
void restore_shapes(const std::vector<std::pair<std::string, Shape>>& parameters,
                    StateDict& state_dict);

template <class Model>
std::vector<std::pair<std::string, Shape>> list_parameters(Model& model) {
  ParameterLister lister;
  lister.walk(model);
  return lister.parameters();
}

template <class Model>
std::int64_t count_parameters(Model& model) {
  std::int64_t count = 0;
  for (const auto& [name, shape] : list_parameters(model)) count += shape.numel();
  return count;
}

// Fills the parameters of a model, after all of them have been checked.
template <class Model>
LoadReport load_parameters(Model& model, const StateDict& state_dict,
                           const LoadOptions& options = {}) {
  LoadReport report = check_parameters(list_parameters(model), state_dict, options);
  ParameterCopier copier(state_dict, options);
  copier.walk(model);
  report.packed = copier.packed_numbers();
  return report;
}

}  // namespace sam_rlx
