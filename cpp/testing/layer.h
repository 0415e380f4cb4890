#pragma once

#include <pybind11/stl.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "bindings/config_dict.h"
#include "bindings/numpy.h"
#include "core/context.h"
#include "kernels/select.h"
#include "layers/layer.h"

// What the rows of the tests' layer table share.

namespace sam_rlx {

using Weights = std::map<std::string, Array<float>>;
using Arrays = std::map<std::string, py::object>;

// Copies a state_dict into a layer: every name and shape must be there, nothing else may be.
class DictLoader final : public ParamVisitor {
 public:
  explicit DictLoader(const Weights& weights) : weights_(weights) {}
  ~DictLoader() override = default;

  void finish() const {
    for (const auto& [name, array] : weights_) {
      if (!used_.contains(name)) fail<CheckpointError>(name, "a name of the layer", "unexpected");
    }
  }

 private:
  void parameter(const std::string& path, Tensor& value, const Shape& shape) override {
    const auto entry = weights_.find(path);
    if (entry == weights_.end()) fail<CheckpointError>(path, "a tensor", "none");
    const ConstView view = view_of(entry->second, path.c_str());
    if (view.shape != shape) {
      fail<CheckpointError>(path, "shape " + shape.str(), view.shape.str());
    }
    value = Tensor::copy_of(view);
    used_.insert(path);
  }
  const Weights& weights_;
  std::set<std::string> used_;
};

template <class Layer>
std::shared_ptr<Layer> loaded(Layer layer, const Weights& weights, const KernelTable& kernels,
                              const WeightRule& rule = {}) {
  auto result = std::make_shared<Layer>(std::move(layer));
  DictLoader loader(weights);
  loader.walk(*result);
  loader.finish();
  fold_and_pack(*result, kernels, rule);
  return result;
}

// One layer with its weights, called with arrays by name.
struct TestLayer {
  std::function<py::object(Context&, const Arrays&)> run;
  const KernelTable* kernels = nullptr;
  int num_threads = 1;
  Workspace workspace;

  py::object forward(const py::kwargs& kwargs) {
    Context ctx{.kernels = *kernels, .workspace = workspace, .num_threads = num_threads};
    const Workspace::Scope scratch(workspace);
    return run(ctx, kwargs.cast<Arrays>());
  }

  // What the layer and its parts recorded: [(path, array), ...].
  py::list trace(const py::kwargs& kwargs) {
    Trace trace;
    Context ctx{
        .kernels = *kernels, .workspace = workspace, .num_threads = num_threads, .trace = &trace};
    const Workspace::Scope scratch(workspace);
    run(ctx, kwargs.cast<Arrays>());
    py::list records;
    for (auto& [path, value] : trace.records) {
      records.append(py::make_tuple(path, to_numpy(std::move(value))));
    }
    return records;
  }
};

inline Array<float> array_of(const Arrays& arrays, const char* name) {
  const auto entry = arrays.find(name);
  if (entry == arrays.end()) fail(name, "an array", "none");
  return entry->second.cast<Array<float>>();
}

inline bool has(const Arrays& arrays, const char* name) {
  const auto entry = arrays.find(name);
  return entry != arrays.end() && !entry->second.is_none();
}

inline py::object result_of(ConstView view) { return to_numpy(Tensor::copy_of(view)); }

template <class T>
T get(const py::dict& config, const char* name, T fallback) {
  return config.contains(name) ? config[name].cast<T>() : fallback;
}

// Makes a layer from its config and its weights.
using Maker =
    std::function<decltype(TestLayer::run)(const py::dict&, const Weights&, const KernelTable&)>;
using Makers = std::map<std::string, Maker>;

// The tables of layers by name, one function a file.
const Makers& sam_makers();
const Makers& sam2_image_makers();
const Makers& sam2_memory_makers();
const Makers& sam2_heads_makers();
const Makers& sam3_detector_makers();
const Makers& sam3_image_makers();
const Makers& sam3_tracker_makers();
const Makers& sam3_multiplex_makers();
const Makers& sam3_text_makers();

}  // namespace sam_rlx
