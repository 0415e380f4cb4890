#pragma once

#include <cstdint>
#include <span>

#include "core/context.h"

namespace sam_rlx {

// Arithmetic of boxes (n, 4) as cx, cy, w, h: fractions of the image's sides.

// boxes = sigmoid(inverse_sigmoid(boxes) + delta), in place; delta (n, 4).
void refine_boxes_(Context& ctx, View boxes, ConstView delta);

// boxes -> out (n, 4): x0, y0, x1, y1, times (width, height, width, height). Not clipped.
void box_corners(Context& ctx, ConstView boxes, float width, float height, View out);

// Distances of the rows of a map from the upper and the lower edge of each box, and of its columns
// from the left and the right one: cell i of n lies at i / n, its origin. A distance d becomes
// sign(d) log2(|8 d| + 1) / 3. -> rows (n, H, 2), cols (n, W, 2).
// Upstream: sam3/model/decoder.py, TransformerDecoder._get_rpb_matrix with boxRPB="log".
void box_distances(Context& ctx, ConstView boxes, View rows, View cols);

// Sines and cosines of coordinates, which turn by 2 pi x / temperature^(2 k / F) for k < F / 2.
struct CoordinateCode {
  ConstView frequencies;         // (F / 2,): 2 pi / temperature^(2 k / F)
  std::span<const int> encoded;  // columns in the order of the result, F numbers each
  std::span<const int> plain;    // columns that follow as they are
};
// x (n, m) -> out (n, encoded * F + plain); sines and cosines take turns.
void encode_coordinates(Context& ctx, ConstView x, const CoordinateCode& code, View out);

}  // namespace sam_rlx
