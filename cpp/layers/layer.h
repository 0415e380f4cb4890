#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/blocks.h"
#include "core/tensor.h"
#include "ops/weight_format.h"

namespace sam_rlx {

struct KernelTable;

// Walks the parameters of a model. A layer is a struct with
//   void visit(ParamVisitor& v);             lists its parts, with upstream's names
//   void fold();                             optional: rewrites the weights that were read
//   void pack(const KernelTable& kernels);   optional: packs them, and frees what was packed
//   std::string path;                        optional: set to the upstream module path
//   WeightFormat weight_format;              optional: set before pack, which packs with it
// The same list serves loading, counting, checking, folding and packing.
class ParamVisitor {
 public:
  virtual ~ParamVisitor() = default;

  // A parameter and the shape that the config asks for.
  void operator()(const char* name, Tensor& parameter, const Shape& shape) {
    this->parameter(join(name), parameter, shape);
  }

  // A weight (out, in) that may stay in the blocks of its file: then `blocks` is filled and `value`
  // stays empty.
  void matrix(const char* name, Tensor& value, BlockRows& blocks, const Shape& shape) {
    this->matrix_parameter(join(name), {value, blocks}, shape);
  }

  // A child layer. Without a name, its parts are named as those of the parent.
  template <class Layer>
  void operator()(const char* name, Layer& layer) {
    const std::string parent = prefix_;
    prefix_ = join(name);
    walk(layer);
    prefix_ = parent;
  }

  // Numbered child layers: name.0, name.1, ...
  template <class Layer>
  void operator()(const char* name, std::vector<Layer>& layers) {
    const std::string parent = prefix_;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      prefix_ = parent.empty() ? name : parent + "." + name;
      prefix_ += '.';
      prefix_ += std::to_string(i);
      walk(layers[i]);
    }
    prefix_ = parent;
  }

  // The root.
  template <class Layer>
  void walk(Layer& layer) {
    if constexpr (requires { layer.path; }) layer.path = prefix_;
    layer.visit(*this);
    if constexpr (requires { layer.fold(); }) {
      if (folding()) layer.fold();
    }
    if constexpr (requires(const KernelTable& k) { layer.pack(k); }) {
      if (const KernelTable* const kernels = packing()) {
        if constexpr (requires { layer.weight_format; }) {
          layer.weight_format = weight_format(prefix_);
        }
        layer.pack(*kernels);
      }
    }
  }

 protected:
  virtual void parameter(const std::string& path, Tensor& value, const Shape& shape) = 0;
  struct Matrix {
    Tensor& value;
    BlockRows& blocks;
  };
  virtual void matrix_parameter(const std::string& path, Matrix matrix, const Shape& shape) {
    parameter(path, matrix.value, shape);
  }
  // Whether the walk folds, or the table for which it packs: each layer after its children.
  virtual bool folding() const { return false; }
  virtual const KernelTable* packing() const { return nullptr; }
  virtual WeightFormat weight_format(const std::string& /*path*/) const {
    return WeightFormat::kFloat32;
  }

 private:
  std::string join(const char* name) const {
    if (*name == '\0') return prefix_;
    return prefix_.empty() ? std::string(name) : prefix_ + "." + name;
  }
  std::string prefix_;
};

// Whether a path is `pattern` or lies below it; "*" stands for one name, such as a number.
inline bool lies_below(std::string_view pattern, std::string_view path) {
  const auto next = [](std::string_view& rest) {
    const std::string_view name = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    return name;
  };
  while (!pattern.empty()) {
    if (path.empty()) return false;
    const std::string_view expected = next(pattern), found = next(path);
    if (expected != "*" && expected != found) return false;
  }
  return true;
}

// Layers below one of `within` and below none of `except`: patterns of lies_below.
struct LayerSet {
  std::span<const std::string_view> within;
  std::span<const std::string_view> except;

  bool holds(std::string_view path) const {
    const auto matches = [&](std::string_view pattern) { return lies_below(pattern, path); };
    return std::any_of(within.begin(), within.end(), matches) &&
           std::none_of(except.begin(), except.end(), matches);
  }
};

// Layers whose weights are held in another format than float32.
struct WeightRule {
  WeightFormat format = WeightFormat::kFloat32;
  LayerSet layers;
  LayerSet bfloat16 = {};  // of the others

  WeightFormat of(std::string_view path) const {
    if (layers.holds(path)) return format;
    return bfloat16.holds(path) ? WeightFormat::kBFloat16 : WeightFormat::kFloat32;
  }
};

class Folder final : public ParamVisitor {
  void parameter(const std::string&, Tensor&, const Shape&) override {}
  bool folding() const override { return true; }
};

class Packer final : public ParamVisitor {
 public:
  Packer(const KernelTable& kernels, const WeightRule& rule) : kernels_(kernels), rule_(rule) {}

 private:
  void parameter(const std::string&, Tensor&, const Shape&) override {}
  const KernelTable* packing() const override { return &kernels_; }
  WeightFormat weight_format(const std::string& path) const override { return rule_.of(path); }
  const KernelTable& kernels_;
  WeightRule rule_;
};

// What was neither folded nor packed no longer lies in a file.
class Owner final : public ParamVisitor {
  void parameter(const std::string&, Tensor& value, const Shape&) override { value.own(); }
};

// What a model needs between its weights and its first forward.
template <class Model>
void fold_and_pack(Model& model, const KernelTable& kernels, const WeightRule& rule = {}) {
  Folder().walk(model);
  Packer(kernels, rule).walk(model);
  Owner().walk(model);
}

}  // namespace sam_rlx
