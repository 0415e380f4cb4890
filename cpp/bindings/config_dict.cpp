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

struct SettingNames {
  static constexpr bool kTold = false;
  std::span<const KeyRow> rows;
  std::vector<std::string> names = {};

  template <class T>
  void operator()(const Field& field, const T& /*value*/) {
    if (field.is(kSetting)) names.push_back(mapped_key(rows, field.path));
  }
};

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

std::vector<std::string> setting_names(const Family& family) {
  SettingNames settings{family.python_names};
  NetworkConfig config = family.released_config();
  std::visit([&](auto& each) { visit_fields(each, settings); }, config);
  return settings.names;
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
  const Release release = release_or_last(family, info.variant);
  return py::dict("variant"_a = info.variant, "version"_a = info.version,
                  "release"_a = family.release_of(config), "source"_a = release.source,
                  "license"_a = release.license, "license_url"_a = release.license_url,
                  "resize"_a = family.resize, "pixel_scale"_a = family.pixel_scale,
                  "values"_a = values);
}

}  // namespace sam_rlx
