#include "bindings/config_dict.h"

#include "loading/key_map.h"

namespace sam_rlx {
namespace {

// "a.b.c" is in the dict of "a.b".
void set_nested(py::dict out, std::string_view path, const py::handle& value) {
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    const py::str part{std::string(path.substr(0, dot))};
    if (!out.contains(part)) out[part] = py::dict();
    out = out[part].cast<py::dict>();
    path.remove_prefix(dot + 1);
  }
  out[py::str(std::string(path))] = value;
}

}  // namespace

py::dict field_values_of(const NetworkConfig& config, FieldFlags but) {
  return std::visit([&](const auto& each) { return field_values(each, but); }, config);
}

py::dict python_config(const NetworkConfig& config, const Family& family) {
  py::dict out;
  for (const auto& [path, value] : field_values_of(config)) {
    set_nested(out, mapped_key(family.python_names, path.cast<std::string>()), value);
  }
  return out;
}

py::dict gguf_description(const NetworkConfig& config, const Family& family) {
  using namespace py::literals;
  const py::dict fields = field_values_of(config);
  py::dict values;
  for (const KeyRow& row : family.gguf_names) {
    const py::str path{std::string(row.from)};
    if (fields.contains(path)) values[py::str(std::string(row.to))] = fields[path];
  }
  for (const auto& [from, to] :
       {std::pair("pixel_mean", "image_mean"), {"pixel_std", "image_std"}}) {
    py::list scaled;
    for (const py::handle value : fields[from]) {
      scaled.append(value.cast<double>() / family.pixel_scale);
    }
    values[to] = scaled;
  }
  const ModelInfo info = family.info_of(config);
  return py::dict("variant"_a = info.variant, "version"_a = info.version,
                  "release"_a = family.release_of(config), "source"_a = family.source,
                  "license"_a = family.license, "resize"_a = family.resize,
                  "pixel_scale"_a = family.pixel_scale, "values"_a = values);
}

}  // namespace sam_rlx
