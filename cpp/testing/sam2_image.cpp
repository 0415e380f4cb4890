#include "layers/position_encoding.h"
#include "loading/loader.h"
#include "loading/open.h"
#include "loading/releases.h"
#include "loading/sam2/config.h"
#include "models/sam2/image_encoder.h"
#include "testing/layer.h"
#include "testing/register.h"

// Layers of SAM 2's image encoder.

namespace sam_rlx {
namespace {

using Run = decltype(TestLayer::run);
using Sizes = std::vector<std::int64_t>;

// Runs a layer for each image of a batch and puts the results, one array a level, together.
template <class Forward>
py::object per_image(Context& ctx, ConstView x, const Forward& forward) {
  const Shape one{1, x.shape[1], x.shape[2], x.shape[3]};
  std::vector<py::list> parts;
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    const Workspace::Scope scratch(ctx.workspace);
    const std::vector<View> levels = forward(x[b].reshape(one));
    parts.resize(levels.size());
    for (std::size_t i = 0; i < levels.size(); ++i) parts[i].append(result_of(levels[i]));
  }
  const py::object concatenate = py::module_::import("numpy").attr("concatenate");
  py::list results;
  for (const py::list& part : parts) results.append(concatenate(part));
  return py::tuple(results);
}

Run make_position_embedding(const py::dict& c, const Weights& /*w*/, const KernelTable& /*k*/) {
  const PositionEmbeddingSine layer{get<std::int64_t>(c, "num_pos_feats", 256)};
  return [layer](Context& /*ctx*/, const Arrays& in) {  // of the positions of x (B, H, W, C)
    const Array<float> x = array_of(in, "x");
    return to_numpy(layer.dense(x.shape(1), x.shape(2)));
  };
}

Run make_patch_embed(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(
      sam2::PatchEmbed(get<std::int64_t>(c, "in_chans", 3), get<std::int64_t>(c, "embed_dim", 96)),
      w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    const ConvWindow& window = layer->proj.window;
    Tensor out({x.shape(0), window.out_size(x.shape(1)), window.out_size(x.shape(2)),
                layer->proj.out_channels});
    layer->forward(ctx, view_of(x, "x"), {}, out);
    return to_numpy(std::move(out));
  };
}

Run make_multi_scale_block(const py::dict& c, const Weights& w, const KernelTable& k) {
  sam2::MultiScaleBlockConfig config;
  config.dim = get<std::int64_t>(c, "dim", 96);
  config.dim_out = get<std::int64_t>(c, "dim_out", config.dim);
  config.num_heads = get<std::int64_t>(c, "num_heads", 1);
  config.mlp_dim = static_cast<std::int64_t>(get<double>(c, "mlp_ratio", 4.0) *
                                             static_cast<double>(config.dim_out));
  config.window_size = get<std::int64_t>(c, "window_size", 0);
  config.q_pool = get<bool>(c, "q_pool", false);
  const auto layer = loaded(sam2::MultiScaleBlock(config), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    if (!layer->widens()) {  // in place, as in the trunk
      Tensor y = Tensor::copy_of(view_of(x, "x"));
      layer->forward(ctx, y, y);
      return to_numpy(std::move(y));
    }
    const std::int64_t step = layer->config.q_pool ? 2 : 1;
    Tensor out({x.shape(0), x.shape(1) / step, x.shape(2) / step, layer->config.dim_out});
    layer->forward(ctx, view_of(x, "x"), out);
    return to_numpy(std::move(out));
  };
}

Run make_hiera(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam2::Hiera(read_config<sam2::HieraConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return per_image(ctx, view_of(x, "x"),
                     [&](ConstView image) { return layer->forward(ctx, image); });
  };
}

Run make_rep_vit(const py::dict& c, const Weights& w, const KernelTable& k) {
  auto config = read_config<trunks::RepVitConfig>(c);
  config.listed = get<bool>(c, "listed", false);
  const auto layer = loaded(trunks::RepVit(config), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return per_image(ctx, view_of(x, "x"),
                     [&](ConstView image) { return layer->forward(ctx, image); });
  };
}

Run make_rep_vit_block(const py::dict& c, const Weights& w, const KernelTable& k) {
  const trunks::RepVitConfig config{.mlp_ratio = get<std::int64_t>(c, "mlp_ratio", 2),
                                    .fused = get<bool>(c, "fused", false)};
  const auto layer = loaded(
      trunks::RepVitBlock(c["dim"].cast<std::int64_t>(), config, c["use_se"].cast<bool>()), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    Tensor out(shape_of(x, "x"));
    layer->forward(ctx, view_of(x, "x"), out);
    return to_numpy(std::move(out));
  };
}

Run make_rep_vit_downsample(const py::dict& c, const Weights& w, const KernelTable& k) {
  const trunks::RepVitConfig config{.mlp_ratio = get<std::int64_t>(c, "mlp_ratio", 2)};
  const auto out_dim = c["out_dim"].cast<std::int64_t>();
  const auto layer =
      loaded(trunks::RepVitDownsample(c["dim"].cast<std::int64_t>(), out_dim, config), w, k);
  return [layer, out_dim](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    Tensor out({x.shape(0), (x.shape(1) - 1) / 2 + 1, (x.shape(2) - 1) / 2 + 1, out_dim});
    layer->forward(ctx, view_of(x, "x"), out);
    return to_numpy(std::move(out));
  };
}

Run make_squeeze_excite(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(
      SqueezeExcite(c["channels"].cast<std::int64_t>(), c["squeezed"].cast<std::int64_t>()), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    Tensor out = Tensor::copy_of(view_of(x, "x"));
    layer->forward_(ctx, out);
    return to_numpy(std::move(out));
  };
}

// A neck, and projections that may be folded into its finest levels.
struct ProjectedNeck {
  sam2::FpnNeck neck;
  Conv2d conv_s0, conv_s1;

  void visit(ParamVisitor& v) {
    v("neck", neck);
    if (conv_s0.out_channels > 0) v("conv_s0", conv_s0);
    if (conv_s1.out_channels > 0) v("conv_s1", conv_s1);
  }
  void fold() {
    if (conv_s0.out_channels > 0) neck.fold_projection(0, conv_s0);
    if (conv_s1.out_channels > 0) neck.fold_projection(1, conv_s1);
  }
};

// `s0_dim` and `s1_dim`: widths of projections that are folded in.
std::shared_ptr<ProjectedNeck> projected_neck(const py::dict& c, const Weights& w,
                                              const KernelTable& k) {
  ProjectedNeck layer{
      .neck = sam2::FpnNeck(read_config<sam2::FpnNeckConfig>(c)), .conv_s0 = {}, .conv_s1 = {}};
  const std::int64_t width = layer.neck.config.d_model;
  layer.conv_s0 = Conv2d(width, get<std::int64_t>(c, "s0_dim", 0), kConv1x1);
  layer.conv_s1 = Conv2d(width, get<std::int64_t>(c, "s1_dim", 0), kConv1x1);
  return loaded(std::move(layer), w, k);
}

Run make_fpn_neck(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = projected_neck(c, w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const sam2::FpnNeck& neck = layer->neck;
    std::vector<Tensor> xs;
    std::vector<Tensor> out;
    std::vector<View> from;
    std::vector<View> to;
    for (std::int64_t i = 0; i < neck.num_levels(); ++i) {
      const std::string name = "x" + std::to_string(i);
      const Array<float> x = array_of(in, name.c_str());
      xs.push_back(Tensor::copy_of(view_of(x, name.c_str())));
      out.emplace_back(xs.back().shape().with_last(neck.out_channels(i)));
    }
    for (Tensor& x : xs) from.push_back(x);
    for (Tensor& x : out) to.push_back(x);
    neck.forward(ctx, from, to);
    py::list results;
    for (Tensor& x : out) results.append(to_numpy(std::move(x)));
    return py::tuple(results);
  };
}

Run make_image_encoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto config = read_config<sam2::ImageEncoderConfig>(c);
  const auto layer = loaded(sam2::ImageEncoder(config), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    py::list results(per_image(ctx, view_of(x, "x"),
                               [&](ConstView image) { return layer->forward(ctx, image); }));
    results.append(result_of(layer->vision_pos_enc));
    return py::object(py::tuple(results));
  };
}

// With RepViT.
Run make_edge_tam_image_encoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  sam2::ImageEncoderConfig config{.trunk = {},
                                  .rep_vit = read_config<trunks::RepVitConfig>(c),
                                  .neck = read_config<sam2::FpnNeckConfig>(c),
                                  .scalp = get<std::int64_t>(c, "scalp", 1)};
  const auto layer = loaded(sam2::ImageEncoder(config), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return per_image(ctx, view_of(x, "x"),
                     [&](ConstView image) { return layer->forward(ctx, image); });
  };
}

// Variant, version and sizes that a file's config or tensors tell, all on one level.
py::dict sam2_config(const std::string& path, const std::optional<std::string>& variant) {
  using namespace py::literals;
  const sam2::Sam2Config config = sam2_config_of(open_checkpoint(path), variant);
  py::dict out("variant"_a = config.variant, "version"_a = config.version,
               "pixel_mean"_a = config.pixel_mean, "pixel_std"_a = config.pixel_std);
  for (const auto& [path_of_field, value] : field_values(config.image_encoder)) {
    const auto name = path_of_field.cast<std::string>();
    out[py::str(name.substr(name.rfind('.') + 1))] = value;
  }
  return out;
}

// Parameters of the image encoder of a released variant: [(name, shape), ...].
std::vector<std::pair<std::string, Sizes>> parameters_of(const std::string& variant) {
  sam2::ImageEncoder encoder(release_named(sam2::releases(), variant).sizes.image_encoder);
  std::vector<std::pair<std::string, Sizes>> result;
  for (const auto& [name, shape] : list_parameters(encoder)) {
    Sizes sizes;
    for (int axis = 0; axis < shape.rank(); ++axis) sizes.push_back(shape[axis]);
    result.emplace_back(name, sizes);
  }
  return result;
}

}  // namespace

void register_sam2_image(py::module_& m) {
  m.def("sam2_config", sam2_config, py::arg("path"), py::arg("variant") = py::none());
  m.def("sam2_image_parameters", parameters_of, py::arg("variant"));
}

const Makers& sam2_image_makers() {
  static const Makers table{
      {"layers.PositionEmbeddingSine", make_position_embedding},
      {"layers.SqueezeExcite", make_squeeze_excite},
      {"sam2.EdgeTamImageEncoder", make_edge_tam_image_encoder},
      {"sam2.FpnNeck", make_fpn_neck},
      {"sam2.Hiera", make_hiera},
      {"sam2.ImageEncoder", make_image_encoder},
      {"sam2.MultiScaleBlock", make_multi_scale_block},
      {"sam2.PatchEmbed", make_patch_embed},
      {"trunks.RepVit", make_rep_vit},
      {"trunks.RepVitBlock", make_rep_vit_block},
      {"trunks.RepVitDownsample", make_rep_vit_downsample},
  };
  return table;
}

}  // namespace sam_rlx
