// quantize_rows for panels of kMr rows: see PanelShape. Rows become bytes a chunk at a time, and
// the bytes of a chunk are brought side by side.

using ChunkBytes = std::uint8_t[kMr][64];

// Writes the bytes of a chunk, from inner index p on, to where they lie in a panel.
template <int Depth>
void interleave(const ChunkBytes& bytes, std::uint8_t* out) noexcept;

// Groups of four bytes: those of four rows fill a register.
template <>
[[maybe_unused]] void interleave<4>(const ChunkBytes& bytes, std::uint8_t* out) noexcept {
  for (Index p = 0; p < 64; p += 16) {
    for (Index r = 0; r < kMr; r += 4) {
      Vec words[4];
      for_each<4>([&](auto i) SAM_RLX_INLINED {
        words[i.value].v = vreinterpretq_f32_u8(vld1q_u8(bytes[r + i.value] + p));
      });
      transpose(words);
      for_each<4>([&](auto i) SAM_RLX_INLINED {
        vst1q_u8(out + (p + 4 * i.value) * kMr + 4 * r, vreinterpretq_u8_f32(words[i.value].v));
      });
    }
  }
}

// Groups of eight bytes: those of two rows fill a register.
template <>
[[maybe_unused]] void interleave<8>(const ChunkBytes& bytes, std::uint8_t* out) noexcept {
  for (Index p = 0; p < 64; p += 16) {
    for (Index r = 0; r < kMr; r += 2) {
      const uint64x2_t a = vreinterpretq_u64_u8(vld1q_u8(bytes[r] + p));
      const uint64x2_t b = vreinterpretq_u64_u8(vld1q_u8(bytes[r + 1] + p));
      vst1q_u8(out + p * kMr + 8 * r, vreinterpretq_u8_u64(vzip1q_u64(a, b)));
      vst1q_u8(out + (p + 8) * kMr + 8 * r, vreinterpretq_u8_u64(vzip2q_u64(a, b)));
    }
  }
}

template <int Depth, std::uint8_t Flip>
void quantize_panels(const sam_rlx::QuantizeRowsArgs& g) noexcept {
  constexpr Index kChunk = sizeof(ChunkBytes) / kMr;
  for (Index first = 0; first < g.rows; first += kMr) {
    const Index rows = smaller(kMr, g.rows - first);
    RowCode codes[kMr];
    for (Index r = 0; r < rows; ++r) {
      codes[r] = row_code(g.x + (first + r) * g.cols, g.cols);
      g.scale[first + r] = codes[r].row.scale;
      g.zero[first + r] = static_cast<std::int32_t>(codes[r].shift);
    }
    alignas(16) ChunkBytes bytes = {};
    for (Index p = 0; p < g.cols; p += kChunk) {
      for (Index r = 0; r < rows; ++r) {
        const float* const x = g.x + (first + r) * g.cols + p;
        quantize_row(x, smaller(kChunk, g.cols - p), codes[r].row.inverse, codes[r].shift,
                     bytes[r]);
        if constexpr (Flip != 0) {
          for (Index i = 0; i < kChunk; i += 16) {
            vst1q_u8(bytes[r] + i, veorq_u8(vld1q_u8(bytes[r] + i), vdupq_n_u8(Flip)));
          }
        }
      }
      interleave<Depth>(bytes, g.out + first * g.out_stride + p * kMr);
    }
  }
}
