#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/loader.h"
#include "models/sam/sam.h"

namespace sam_rlx {

struct KernelTable;

struct ModelOptions {
  std::optional<std::string> variant;
  std::optional<std::string> precision;  // "float32"
  std::optional<std::string> isa;
  std::optional<std::int64_t> image_size;
  bool strict = true;
};

// Loaded weights, packed for one instruction set. Immutable: predictors and threads share it.
class Model {
 public:
  static std::shared_ptr<const Model> load(const std::string& path, const ModelOptions& options);

  const sam::Sam& sam() const { return sam_; }
  const KernelTable& kernels() const { return kernels_; }
  const LoadReport& report() const { return report_; }
  std::int64_t num_parameters() const { return num_parameters_; }

 private:
  Model(const KernelTable& kernels, const sam::SamConfig& config)
      : kernels_(kernels), sam_(config) {}

  const KernelTable& kernels_;
  sam::Sam sam_;
  LoadReport report_;
  std::int64_t num_parameters_ = 0;
};

}  // namespace sam_rlx
