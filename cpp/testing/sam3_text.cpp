#include <algorithm>
#include <vector>

#include "models/sam3/text_encoder.h"
#include "testing/layer.h"

// Layers of SAM 3's text encoder.

namespace sam_rlx {
namespace {

using Run = decltype(TestLayer::run);
using Ids = Array<std::int64_t>;

// x (R, C): tokens of texts with `lengths` rows -> (R, C)
Run make_residual_block(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(
      sam3::ResidualAttentionBlock({.width = c["d_model"].cast<std::int64_t>(),
                                    .heads = c["n_head"].cast<std::int64_t>(),
                                    .layer_norm_eps = get<double>(c, "layer_norm_eps", 1e-5)}),
      w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    std::vector<std::int64_t> begins{0};
    for (const std::int64_t length : in.at("lengths").cast<std::vector<std::int64_t>>()) {
      begins.push_back(begins.back() + length);
    }
    Tensor out = Tensor::copy_of(view_of(x, "x"));
    layer->forward_(ctx, out, {begins});
    return to_numpy(std::move(out));
  };
}

// ids (N, L) -> tokens (R, d_model) of all texts, which of them are padding (R,): 1 or 0
Run make_text_encoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam3::VETextEncoder(read_config<sam3::TextEncoderConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Ids ids = in.at("ids").cast<Ids>();
    if (ids.ndim() != 2) fail("ids", "shape (N, L)", shape_of(ids, "ids").str());
    const sam3::TextFeatures found =
        layer->forward(ctx, {.data = ids.data(), .count = ids.shape(0), .length = ids.shape(1)});
    const std::int64_t rows = found.begins.back();
    auto padding = make_array<float>({rows});
    std::copy_n(found.padding, rows, padding.mutable_data());
    Tensor tokens(found.tokens.shape);  // text by text, as the detector takes them
    float* to = tokens.data();
    for (std::int64_t i = 0; i < ids.shape(0); ++i) {
      const ConstView text = found.text(i);
      to = std::copy_n(text.data, text.numel(), to);
    }
    return py::make_tuple(to_numpy(std::move(tokens)), padding);
  };
}

}  // namespace

const Makers& sam3_text_makers() {
  static const Makers table{
      {"sam3.ResidualAttentionBlock", make_residual_block},
      {"sam3.VETextEncoder", make_text_encoder},
  };
  return table;
}

}  // namespace sam_rlx
