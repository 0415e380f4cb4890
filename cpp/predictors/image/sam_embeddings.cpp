#include "predictors/image/sam_embeddings.h"

#include <algorithm>

#include "ops/elementwise.h"

namespace sam_rlx {
namespace {

// Channels first (C, g, g) -> out, channels last.
void channels_last(Context& ctx, ConstView map, View out) {
  const std::int64_t channels = map.shape[0], positions = map.shape[1] * map.shape[2];
  transpose(ctx, map.reshape({channels, positions}), out.reshape({positions, channels}));
}

}  // namespace

void decode_embeddings(Context& ctx, const sam::Sam& sam, const SamEmbeddings& in,
                       std::int64_t first, View masks, View iou) {
  const Workspace::Scope scratch(ctx.workspace);
  const sam::MaskDecoder& decoder = sam.mask_decoder;
  const std::int64_t c = in.image.shape[0], g = in.image.shape[1], count = masks.shape[1];
  const View embedding = ctx.workspace.floats({g, g, c});
  channels_last(ctx, in.image, embedding);
  const View image_pe = ctx.workspace.floats({1, g, g, c});
  channels_last(ctx, in.image_pe, image_pe);
  for (std::int64_t set = 0; set < masks.shape[0]; ++set) {
    ctx.check_interrupt();
    const Workspace::Scope of_set(ctx.workspace);
    const View map = ctx.workspace.floats({g, g, c});
    channels_last(ctx, in.dense[set], map);
    add_(ctx, map, embedding);
    const sam::MaskDecoder::Decoded decoded = decoder.decode(
        ctx, {.map = map, .image_pe = image_pe, .sparse = in.sparse[set]}, {first, count});
    std::copy_n(decoded.iou_predictions.data + first, count, iou[set].data);
    decoder.predict_masks(ctx, decoded, first, masks[set]);
  }
}

}  // namespace sam_rlx
