#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace sam_rlx {

// Arrays by name, and texts about them: what a safetensors file of an image embedding or of a
// session holds. It owns all of it.
class NamedTensors {
 public:
  using Integers = std::vector<std::int64_t>;
  using Doubles = std::vector<double>;
  using Array = std::variant<Tensor, Integers, Doubles>;
  using Write = std::function<void(std::span<const std::byte>)>;

  std::map<std::string, std::string> metadata = {};

  NamedTensors() = default;
  // Movable only, as its tensors are.
  NamedTensors(NamedTensors&&) = default;
  NamedTensors& operator=(NamedTensors&&) = default;

  void set(std::string name, Array array) {
    arrays_.insert_or_assign(std::move(name), std::move(array));
  }
  const std::map<std::string, Array, std::less<>>& arrays() const { return arrays_; }
  // Null: there is none of this name and type.
  template <class T>
  const T* find(std::string_view name) const {
    const auto found = arrays_.find(name);
    return found == arrays_.end() ? nullptr : std::get_if<T>(&found->second);
  }

  // Hands the bytes of a safetensors file to `write`, one part after the other. Its metadata has a
  // checksum of everything besides.
  void save(const Write& write) const;
  // Floats of 16 bits are widened. Raises CheckpointError when the file is damaged, or has arrays
  // of other types; std::filesystem::filesystem_error when it cannot be opened.
  static NamedTensors read(const std::filesystem::path& path);

 private:
  std::map<std::string, Array, std::less<>> arrays_;
};

}  // namespace sam_rlx
