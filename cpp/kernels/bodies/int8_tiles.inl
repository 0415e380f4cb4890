// C = A B of bytes, tile by tile. The instruction set gives kInt8Mr and multiply_int8_tile<R>,
// which makes a tile of R rows.

void int8_gemm(const sam_rlx::Int8GemmArgs& g) noexcept {
  each_tile<kInt8Mr>(g.target, [&](const TileArgs& t) SAM_RLX_INLINED {
    by_rows<kInt8Mr>(t.rows, [&](auto r) SAM_RLX_INLINED { multiply_int8_tile<r.value>(t, g); });
  });
}
