#include <variant>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "core/workspace.h"
#include "loading/model.h"
#include "predictors/image/image_predictor.h"
#include "predictors/image/sam_embeddings.h"

namespace sam_rlx {
namespace {

const sam::Sam& sam_of(const Model& model) {
  if (!std::holds_alternative<sam::Sam>(model.network())) {
    fail<UnsupportedError>("model", "SAM", "another family");
  }
  if (model.sam().mask_decoder.hq) fail<UnsupportedError>("model", "SAM", "SAM-HQ");
  return model.sam();
}

void require(const char* where, const Shape& expected, const Shape& found) {
  if (found != expected) fail(where, "shape " + expected.str(), found.str());
}

// (masks (B, M, 4g, 4g), predicted IoU (B, M))
py::tuple masks_of_embeddings(const Model& model, const Array<float>& image_embeddings,
                              const Array<float>& image_pe, const Array<float>& sparse,
                              const Array<float>& dense, bool multimask_output, int num_threads) {
  const sam::Sam& sam = sam_of(model);
  const std::int64_t g = sam.prompt_encoder.config.image_embedding_size;
  const std::int64_t c = sam.prompt_encoder.config.embed_dim, side = model.info().mask_side;
  const ConstView image = view_of(image_embeddings, "image_embeddings");
  const ConstView positions = view_of(image_pe, "image_pe");
  const ConstView tokens = view_of(sparse, "sparse_prompt_embeddings");
  const ConstView maps = view_of(dense, "dense_prompt_embeddings");
  require("image_embeddings", {1, c, g, g}, image.shape);
  require("image_pe", {1, c, g, g}, positions.shape);
  const std::int64_t sets = tokens.shape.rank() == 3 ? tokens.shape[0] : 0;
  const std::int64_t count = tokens.shape.rank() == 3 ? tokens.shape[1] : 0;
  require("sparse_prompt_embeddings", {sets, count, c}, tokens.shape);
  require("dense_prompt_embeddings", {sets, c, g, g}, maps.shape);
  const std::int64_t first = multimask_output ? 1 : 0;
  const std::int64_t masks = multimask_output ? sam.config.mask_decoder.num_multimask_outputs : 1;
  auto low_res = make_array<float>({sets, masks, side, side});
  auto iou = make_array<float>({sets, masks});
  const View low_res_view = view_of(low_res), iou_view = view_of(iou);
  {
    const GilRelease release;
    Workspace workspace;
    Context ctx{.kernels = model.kernels(),
                .workspace = workspace,
                .num_threads = checked_num_threads(num_threads),
                .poll_interrupt = poll_python_signals};
    decode_embeddings(ctx, sam, {image[0], positions[0], tokens, maps}, first, low_res_view,
                      iou_view);
  }
  return py::make_tuple(low_res, iou);
}

}  // namespace

void register_sam_embeddings(py::module_& m) {
  m.def("decode_sam_embeddings", masks_of_embeddings, py::arg("model"), py::arg("image_embeddings"),
        py::arg("image_pe"), py::arg("sparse"), py::arg("dense"), py::arg("multimask_output"),
        py::arg("num_threads") = 0);
}

}  // namespace sam_rlx
