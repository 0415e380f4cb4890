#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/layer.h"

namespace sam_rlx {

// A number for names, shapes and values of all parameters, before they are folded and packed. Equal
// weights of any kind of file have equal numbers; other ones have another, but by chance.
class WeightHasher final : public ParamVisitor {
 public:
  // 16 digits. The parameters are read here, by all cores.
  std::string hex() const;

 private:
  void parameter(const std::string& path, Tensor& value, const Shape& shape) override;
  void matrix_parameter(const std::string& path, Matrix matrix, const Shape& shape) override;
  void add_name(const std::string& path, const Shape& shape);
  void add_values(const void* data, std::size_t bytes);

  struct Piece {
    const char* data;
    std::size_t bytes;
  };
  std::vector<Piece> pieces_;  // of the values, in order
  std::uint64_t names_ = 0;    // the number for names, shapes and sizes
};

template <class Model>
std::string hash_weights(Model& model) {
  WeightHasher hasher;
  hasher.walk(model);
  return hasher.hex();
}

}  // namespace sam_rlx
