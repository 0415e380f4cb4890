#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "layers/rules.h"
#include "loading/family.h"
#include "loading/loader.h"
#include "loading/network.h"
#include "ops/weight_format.h"

namespace sam_rlx {

struct KernelTable;

struct ModelOptions {
  std::optional<std::string> variant = {};
  // Of weight_format_named. If not given, packed matrices of a GGUF file stay packed and all others
  // are float32.
  std::optional<std::string> precision = {};
  std::optional<std::string> isa = {};
  std::optional<std::int64_t> image_size = {};
  bool strict = true;
  // Which of several models in the file: WrapperChoice::key.
  std::optional<std::string> key = {};
  // JSON of fields of the config by their names in model.config ("base.image_size"), which replace
  // those that the file tells.
  std::optional<std::string> fields = {};
  // A file or folder of an adapter, merged into the weights: merge_adapter.h.
  std::optional<std::string> lora = {};
  // False: pixels are 0 to 1, whatever mean and deviation the file tells.
  bool normalize = true;
  // The text of a transformers' config.json, instead of what the file or its folder has.
  std::optional<std::string> config = {};
  Rules rules = {};
};

// Loaded weights, packed for one instruction set. Immutable: predictors and threads share it.
class Model {
 public:
  static std::shared_ptr<const Model> load(const std::string& path, const ModelOptions& options);

  const Family& family() const { return family_; }
  NetworkConfig config() const;
  const ModelInfo& info() const { return info_; }
  // Raises UnsupportedError unless the model finds what texts and examples name.
  void require_text(const char* where) const;
  const Network& network() const { return network_; }
  // The network of the family; the caller knows which.
  const sam::Sam& sam() const { return std::get<sam::Sam>(network_); }
  const sam2::Sam2& sam2() const { return std::get<sam2::Sam2>(network_); }
  const sam3::Sam3& sam3() const { return std::get<sam3::Sam3>(network_); }
  const KernelTable& kernels() const { return kernels_; }
  const Rules& rules() const { return rules_; }
  const LoadReport& report() const { return report_; }
  // How the layers of the config's reduced_layers() hold their weights: "float32", "bfloat16",
  // "int8", or the format that most numbers of a GGUF file's blocks have: "Q4_K".
  std::string precision() const;
  std::int64_t num_parameters() const { return num_parameters_; }
  // Tells fine-tunes of one structure apart; see WeightHasher.
  const std::string& weights_hash() const { return weights_hash_; }

 private:
  Model(const KernelTable& kernels, const Family& family, const NetworkConfig& config)
      : kernels_(kernels),
        family_(family),
        network_(make_network(config)),
        info_(family.info_of(config)) {}

  const KernelTable& kernels_;
  const Family& family_;
  Network network_;
  ModelInfo info_;
  WeightFormat precision_ = WeightFormat::kFloat32;
  Rules rules_;
  LoadReport report_;
  std::int64_t num_parameters_ = 0;
  std::string weights_hash_;
};

}  // namespace sam_rlx
