#pragma once

#include <optional>
#include <vector>

#include "bindings/numpy.h"
#include "predictors/image/mask_generator.h"

namespace sam_rlx {

// A boolean mask (H, W); other types are compared with zero.
using MaskArray = Array<bool>;

// The bytes of a mask, 0 or 1. Raises InvalidArgument when it does not have two axes.
const std::uint8_t* mask_bytes(const MaskArray& mask);

py::array_t<std::uint32_t> counts_array(const Rle& rle);
// A code from outside, checked.
Rle rle_from(const Array<std::uint32_t>& counts, std::pair<std::int64_t, std::int64_t> size);
py::array_t<bool> mask_array(const Rle& rle);

// Arguments of everything mode by upstream's names, all but point_grids, and its grids (n, 2).
// Raises InvalidArgument for a name that there is not, and, if `limited`, for a value out of range.
MaskGeneratorConfig generator_config(const py::dict& options,
                                     const std::optional<std::vector<Array<double>>>& point_grids,
                                     bool limited = true);

// One dict a record: counts, size, area, bbox, predicted_iou, point_coords, stability_score and
// crop_box; boxes as x, y, w, h.
py::list record_dicts(const std::vector<MaskRecord>& records);

}  // namespace sam_rlx
