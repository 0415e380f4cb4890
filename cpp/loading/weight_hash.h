#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "layers/layer.h"

namespace sam_rlx {

// A number for names, shapes and values of all parameters, before they are folded and packed. Equal
// weights of any kind of file have equal numbers; other ones have another, but by chance.
class WeightHasher final : public ParamVisitor {
 public:
  std::string hex() const;  // 16 digits

 private:
  void parameter(const std::string& path, Tensor& value, const Shape& shape) override;
  void matrix_parameter(const std::string& path, Matrix matrix, const Shape& shape) override;
  void add_name(const std::string& path, const Shape& shape);
  void add(const void* data, std::size_t bytes);

  std::uint64_t state_ = 0;
};

template <class Model>
std::string hash_weights(Model& model) {
  WeightHasher hasher;
  hasher.walk(model);
  return hasher.hex();
}

}  // namespace sam_rlx
