#pragma once

#include "core/context.h"

namespace sam_rlx {

// Reads a map (H, W, C), channels last, at positions between its cells.

// Means of a map over bins of boxes: boxes (n, 4) x0, y0, x1, y1 in cells, cell (i, j) reaching
// from (j, i) to (j + 1, i + 1) -> out (n, S, S, C). Sides are at least 1; a bin is the mean of
// ceil(side / S) bilinear samples along each axis. A sample more than one cell outside is zero, and
// the map's border repeats for the others. Coordinates reach to 1e9.
// Upstream: torchvision.ops.roi_align(spatial_scale=1, sampling_ratio=-1, aligned=False).
void roi_align(Context& ctx, ConstView map, ConstView boxes, View out);

// Bilinear samples: points (n, 2) x, y as fractions of the map's sides -> out (n, C). Cells outside
// of the map are zeros.
// Upstream: torch.nn.functional.grid_sample(2 p - 1, padding_mode="zeros", align_corners=False).
void sample_points(Context& ctx, ConstView map, ConstView points, View out);

}  // namespace sam_rlx
