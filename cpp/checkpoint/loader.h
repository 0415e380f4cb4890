#pragma once

#include <cstdint>
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
  std::vector<std::string> skipped;     // see StateDict::skipped
};

struct LoadOptions {
  bool strict = true;                         // unexpected tensors are an error
  std::span<const std::string_view> ignored;  // patterns of matches_key: no error in any case
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

// Fills each parameter with the tensor of its name, widened to float32.
class ParameterCopier final : public ParamVisitor {
 public:
  explicit ParameterCopier(const StateDict& state_dict) : state_dict_(state_dict) {}

 private:
  void parameter(const std::string& path, Tensor& value, const Shape& shape) override;
  const StateDict& state_dict_;
};

// Compares the parameters of a model with a file. Raises one CheckpointError that lists every
// missing, misshaped and, if strict, unexpected tensor.
LoadReport check_parameters(const std::vector<std::pair<std::string, Shape>>& parameters,
                            const StateDict& state_dict, const LoadOptions& options);

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
  ParameterCopier copier(state_dict);
  copier.walk(model);
  return report;
}

}  // namespace sam_rlx
