#include "models/sam3/neck.h"
#include "testing/layer.h"

// Layers of SAM 3's image encoder.

namespace sam_rlx {
namespace {

using Run = decltype(TestLayer::run);
using Sizes = std::vector<std::int64_t>;

// `global`: whether the block is one of the global ones.
Run make_sam3_block(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer =
      loaded(sam3::Block(read_config<sam3::ViTConfig>(c), c["global"].cast<bool>()), w, k);
  return [layer](Context& ctx, const Arrays& in) {  // x (B, g, g, C)
    const Array<float> x = array_of(in, "x");
    Tensor y = Tensor::copy_of(view_of(x, "x"));
    layer->forward_(ctx, y);
    return to_numpy(std::move(y));
  };
}

Run make_vit(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam3::ViT(read_config<sam3::ViTConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) {  // x (1, S, S, 3)
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

// `rep_vit` or `tiny_vit`: the sizes of the one that there is.
Run make_student(const py::dict& c, const Weights& w, const KernelTable& k) {
  auto config = read_config<sam3::ViTConfig>(c);
  config.student.emplace();
  if (c.contains("rep_vit")) {
    auto rep_vit = read_config<trunks::RepVitConfig>(c["rep_vit"].cast<py::dict>());
    rep_vit.listed = true;
    config.student->rep_vit = rep_vit;
  } else {
    auto tiny_vit = read_config<trunks::TinyViTConfig>(c["tiny_vit"].cast<py::dict>());
    tiny_vit.halves_all = true;
    config.student->tiny_vit = tiny_vit;
  }
  const auto layer = loaded(sam3::StudentTrunk(config), w, k);
  return [layer](Context& ctx, const Arrays& in) {  // x (1, S, S, 3)
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

// Levels without a trunk. `s0_dim`, `s1_dim`: widths of projections that are folded in.
struct ProjectedBranches {
  std::vector<sam3::NeckBranch> convs;
  std::vector<Conv2d> projections;

  void visit(ParamVisitor& v) {
    v("convs", convs);
    v("projections", projections);
  }
  void fold() {
    for (std::size_t i = 0; i < projections.size(); ++i) convs[i].conv_3x3.absorb(projections[i]);
  }
};

Run make_branches(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto dim = c["embed_dim"].cast<std::int64_t>(), d_model = c["d_model"].cast<std::int64_t>();
  ProjectedBranches branches;
  for (const double factor : c["scale_factors"].cast<std::vector<double>>()) {
    branches.convs.emplace_back(dim, d_model, factor);
  }
  for (const std::int64_t width : get<Sizes>(c, "projections", {})) {
    branches.projections.emplace_back(d_model, width, kConv1x1);
  }
  const auto layer = loaded(std::move(branches), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {  // x (B, g, g, C)
    const Array<float> x = array_of(in, "x");
    py::list results;
    for (const sam3::NeckBranch& branch : layer->convs) {
      Tensor out({x.shape(0), branch.side_of(x.shape(1)), branch.side_of(x.shape(2)),
                  branch.out_channels()});
      branch.forward(ctx, view_of(x, "x"), out);
      results.append(to_numpy(std::move(out)));
    }
    return py::tuple(results);
  };
}

// -> the kept levels of both sets, finest first, and the encoding of the trunk's positions
Run make_dual_neck(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam3::Sam3DualViTDetNeck(read_config<sam3::VisionConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {  // x (1, S, S, 3)
    const Array<float> x = array_of(in, "x");
    const View map = layer->forward_trunk(ctx, view_of(x, "x"));
    py::list results;
    for (const auto* const branches : {&layer->convs, &layer->sam2_convs}) {
      if (branches->empty()) continue;
      const Workspace::Scope scratch(ctx.workspace);
      for (const View& level : layer->levels(ctx, map, *branches)) results.append(result_of(level));
    }
    results.append(result_of(layer->vision_pos_enc));
    return py::tuple(results);
  };
}

}  // namespace

const Makers& sam3_image_makers() {
  static const Makers table{
      {"sam3.Block", make_sam3_block},
      {"sam3.NeckBranches", make_branches},
      {"sam3.Sam3DualViTDetNeck", make_dual_neck},
      {"sam3.StudentTrunk", make_student},
      {"sam3.ViT", make_vit},
  };
  return table;
}

}  // namespace sam_rlx
