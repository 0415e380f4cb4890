#pragma once

#include <cstdint>
#include <vector>

#include "layers/layer.h"
#include "ops/rope.h"

namespace sam_rlx {

// The angles of the axial rotary encoding, made once: coordinate c and frequency j turn by
// c * scale * theta^(-4j / dim). Upstream: sam2/modeling/position_encoding.py, compute_axial_cis,
// and sam3/model/vitdet.py, compute_axial_cis.
struct AxialRope {
  std::int64_t side = 0, dim = 0;
  double theta = 10000.0;
  double scale = 1.0;
  Tensor cos, sin;                                            // (side, dim / 4)
  Tensor centered_cos, centered_sin, center_cos, center_sin;  // see ops/rope.h, CenteredAngles

  AxialRope() = default;
  AxialRope(std::int64_t grid, std::int64_t channels, double base)
      : side(grid), dim(channels), theta(base) {}

  void build();
  AxialAngles angles() const { return {side, cos, sin}; }
  CenteredAngles centered() const {
    return {side, centered_cos, centered_sin, center_cos, center_sin};
  }
  // Turns rows of channels in halves, see ops/rope.h.
  void rotate_(Context& ctx, View x) const { sam_rlx::rotate_(ctx, angles(), x); }
  void rotate_rows_(Context& ctx, std::int64_t first, View rows) const {
    sam_rlx::rotate_rows_(ctx, angles(), first, rows);
  }
  // The order in which rotate_ expects the rows of a projection: the first `turned` of them are
  // heads of dim, whose pairs are neighbours upstream.
  std::vector<std::int64_t> row_order(std::int64_t rows, std::int64_t turned) const;
};

}  // namespace sam_rlx
