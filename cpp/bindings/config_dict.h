#pragma once

#include <pybind11/stl.h>

#include <optional>
#include <set>
#include <string>
#include <type_traits>

#include "layers/fields.h"
#include "loading/family.h"

// Configs and options as Python dicts.

namespace sam_rlx {

namespace py = pybind11;

// Collects the values of fields by their paths; None for a part that is not there.
struct FieldWriter {
  static constexpr bool kTold = true;
  FieldFlags but = kNoFlags;  // without fields of this flag
  py::dict values = {};

  template <class T>
  void operator()(const Field& field, const T& value) {
    if (field.is(but)) return;
    if constexpr (std::is_same_v<T, std::nullopt_t>) {
      values[py::str(field.path)] = py::none();
    } else {
      values[py::str(field.path)] = py::cast(value);
    }
  }
};

template <class Config>
py::dict field_values(Config config, FieldFlags but = kNoFlags) {
  FieldWriter writer{.but = but};
  visit_fields(config, writer);
  return writer.values;
}

// Sets the fields that a dict has under the last part of their paths.
struct DictReader {
  static constexpr bool kTold = false;
  const py::dict& values;

  template <class T>
  void operator()(const Field& field, T& value) const {
    const py::str name{std::string(field.name())};
    if (values.contains(name)) value = values[name].cast<T>();
  }
};

template <class Config>
Config read_config(const py::dict& values, Config config = {}) {
  visit_fields(config, DictReader{values});
  return config;
}

// The same for options: raises InvalidArgument for a value of another type or out of its range, and
// for a name that they do not have, which `where` and `expected` tell.
struct OptionReader {
  static constexpr bool kTold = false;
  const py::dict& values;
  bool limited = true;  // whether the ranges hold
  std::set<std::string> names = {};

  template <class T>
  void operator()(const Field& field, T& value) {
    const std::string name(field.name());
    names.insert(name);
    if (!values.contains(name.c_str())) return;
    const py::handle given = values[name.c_str()];
    try {
      value = given.cast<T>();
    } catch (const py::cast_error&) {
      const std::string expected = std::is_same_v<T, bool> ? "True or False" : range_text(field);
      fail(name, expected, py::repr(given).cast<std::string>());
    }
    if (limited) check_field<InvalidArgument>(name, field, value);
  }
};

template <class Options>
Options read_options(const py::dict& values, const char* where, const char* expected,
                     bool limited = true) {
  Options options;
  OptionReader reader{values, limited};
  visit_fields(options, reader);
  for (const auto& item : values) {
    const std::string name = py::str(item.first);
    if (!reader.names.contains(name)) fail(where, expected, name);
  }
  return options;
}

// The values of the fields of a network by their paths, but for those with the flag `but`.
py::dict field_values_of(const NetworkConfig& config, FieldFlags but = kNoFlags);
// Sizes under upstream's argument names.
py::dict python_config(const NetworkConfig& config, const Family& family);
// Names in that dict, joined by dots, of what no weight depends on.
std::vector<std::string> setting_names(const Family& family);
// What a GGUF file says about a network: "values" by keys without the family's name before them.
py::dict gguf_description(const NetworkConfig& config, const Family& family);

}  // namespace sam_rlx
