#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/crc32.h"
#include "checkpoint/json.h"
#include "checkpoint/quantize.h"
#include "checkpoint/state_dict.h"
#include "core/half.h"
#include "loading/family.h"
#include "loading/hugging_face_names.h"
#include "loading/loader.h"
#include "loading/open.h"
#include "testing/register.h"

namespace py = pybind11;

namespace sam_rlx {
namespace {

using NamedShapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// A model that is a list of parameters.
struct ParameterList {
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  std::vector<Tensor> values;

  explicit ParameterList(const NamedShapes& parameters) : values(parameters.size()) {
    for (const auto& [name, dims] : parameters) {
      names.push_back(name);
      Shape shape;
      for (const std::int64_t size : dims) shape.push_back(size);
      shapes.push_back(shape);
    }
  }
  void visit(ParamVisitor& v) {
    for (std::size_t i = 0; i < names.size(); ++i) v(names[i].c_str(), values[i], shapes[i]);
  }
};

py::array_t<float> to_numpy(const StateDict& state_dict, const std::string& name) {
  const TensorEntry* const entry = state_dict.find(name);
  if (entry == nullptr) throw py::key_error(name);
  py::array_t<float> result(entry->dims);
  copy_as_float(state_dict, *entry, result.mutable_data());
  return result;
}

py::dict to_dict(const LoadReport& report) {
  py::dict result;
  result["missing"] = report.missing;
  result["unexpected"] = report.unexpected;
  result["misshaped"] = report.misshaped;
  result["ignored"] = report.ignored;
  result["skipped"] = report.skipped;
  return result;
}

// Loads into a list of parameters; returns the report and, on demand, the values.
py::tuple load_list(const StateDict& state_dict, const NamedShapes& parameters, bool strict,
                    const std::vector<std::string>& ignored, bool values) {
  ParameterList model(parameters);
  const std::vector<std::string_view> patterns(ignored.begin(), ignored.end());
  const LoadReport report =
      load_parameters(model, state_dict, {.strict = strict, .ignored = patterns, .packed = {}});
  py::dict arrays;
  for (std::size_t i = 0; values && i < model.names.size(); ++i) {
    std::vector<std::int64_t> dims;
    for (int axis = 0; axis < model.shapes[i].rank(); ++axis) dims.push_back(model.shapes[i][axis]);
    arrays[py::str(model.names[i])] = py::array_t<float>(dims, model.values[i].data());
  }
  return py::make_tuple(to_dict(report), arrays, count_parameters(model));
}

py::object json_to_python(const Json& json) {
  const std::string where = "json";
  if (json.is_null()) return py::none();
  if (json.is_string()) return py::str(json.string(where));
  if (json.is_array()) {
    py::list result;
    for (const Json& item : json.array(where)) result.append(json_to_python(item));
    return result;
  }
  if (json.is_object()) {
    py::dict result;
    for (const auto& [key, value] : json.object(where)) {
      result[py::str(key)] = json_to_python(value);
    }
    return result;
  }
  if (json.is_boolean()) return py::bool_(json.boolean(where));
  if (json.is_integer()) return py::int_(json.integer(where));
  return py::float_(json.number(where));
}

void register_state_dict(py::module_& m) {
  py::class_<StateDict>(m, "StateDict", py::module_local())
      .def_readonly("metadata", &StateDict::metadata)
      .def_property_readonly("skipped", &StateDict::skipped)
      .def_property_readonly("origin",
                             [](const StateDict& self) {
                               const Origin& o = self.origin;
                               return py::make_tuple(o.container, o.key, o.keys, o.prefix);
                             })
      .def("keys",
           [](const StateDict& self) {
             std::vector<std::string> names;
             for (const TensorEntry& entry : self.tensors()) names.push_back(entry.name);
             return names;
           })
      .def("dtypes",
           [](const StateDict& self) {
             std::map<std::string, std::string> result;
             for (const TensorEntry& entry : self.tensors()) {
               result[entry.name] = dtype_name(entry.dtype);
             }
             return result;
           })
      .def("__getitem__", &to_numpy)
      .def("to_meta_names", [](StateDict& self) { return to_meta_names(self).name; })
      .def("load", &load_list, py::arg("parameters"), py::arg("strict") = true,
           py::arg("ignored") = std::vector<std::string>{}, py::arg("values") = true);
}

// A function of one number, applied to an array.
template <class Out, class In>
void def_each(py::module_& module, const char* name, Out (*convert)(In) noexcept) {
  module.def(name, [convert](const py::array_t<In, py::array::c_style>& values) {
    py::array_t<Out> result(values.size());
    for (py::ssize_t i = 0; i < values.size(); ++i) {
      result.mutable_data()[i] = convert(values.data()[i]);
    }
    return result;
  });
}

}  // namespace

void register_checkpoint(py::module_& module) {
  register_state_dict(module);
  module.def(
      "open_checkpoint",
      [](const std::filesystem::path& source, std::optional<std::string> key) {
        return open_checkpoint(source, {.key = std::move(key)});
      },
      py::arg("source"), py::arg("key") = py::none());
  module.def("resolve_checkpoint", &resolve_checkpoint, py::arg("source"), py::arg("prefer") = "");
  module.def(
      "crc32",
      [](const std::string& bytes, bool by_tables) {
        const auto data = std::as_bytes(std::span(bytes));
        return by_tables ? crc32_by_tables(data) : crc32_of(data);
      },
      py::arg("bytes"), py::arg("by_tables"));
  module.def("parse_json",
             [](const std::string& text) { return json_to_python(Json::parse(text, "json")); });
  module.def("map_key", [](const std::vector<std::pair<std::string, std::string>>& rows,
                           const std::string& name) {
    std::vector<KeyRow> views;
    for (const auto& [from, to] : rows) views.push_back({from, to});
    return map_key(views, name);
  });
  module.def("meta_names", [](const std::string& family, const std::vector<std::string>& names) {
    std::vector<std::string> result;
    for (const std::string& name : names) {
      result.push_back(meta_name(family, name));
    }
    return result;
  });
  module.def("to_short_name", &to_short_name);
  module.def("from_short_name", &from_short_name);
  module.def(
      "quantize", [](const std::string& dtype, const py::array_t<float>& numbers, int num_threads) {
        for (int i = 0; i < kNumDTypes; ++i) {
          const auto found = static_cast<DType>(i);
          if (dtype != dtype_name(found)) continue;
          py::array_t<std::uint8_t> result(quantized_bytes(found, numbers.size()));
          quantize(found, {numbers.data(), static_cast<std::size_t>(numbers.size())},
                   reinterpret_cast<std::byte*>(result.mutable_data()), num_threads, "numbers");
          return result;
        }
        throw py::key_error(dtype);
      });
  def_each(module, "half_to_float", half_to_float);
  def_each(module, "bfloat16_to_float", bfloat16_to_float);
  def_each(module, "float_to_half", float_to_half);
  def_each(module, "float_to_bfloat16", float_to_bfloat16);
}

}  // namespace sam_rlx
