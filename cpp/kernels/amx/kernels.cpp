#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/base.inl"
#include "kernels/avx512/dot4_vnni.inl"
#include "kernels/bodies/softmax_columns.inl"
#include "kernels/avx512/softmax_bfloat16.inl"
// clang-format on

constexpr int kInt8Mr = 8;  // docs/develop/optimizations.md: register-tile

#include "kernels/bodies/int8_gemm.inl"

// ---- products of matrices in tile registers, each of 16 rows of 64 bytes.

constexpr Index kTileRows = 16;
constexpr Index kTileBytes = 64;
constexpr Index kBlockRows = 2 * kTileRows;
static_assert(kNr == 2 * kTileRows, "two tiles are as wide as a panel");

// A constant: GCC takes the instruction that reads it for a read of its first bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette, first_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
constexpr TileShapes kWholeTiles{
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// The calling thread's tile registers, whole ones; empty again at the end of the scope, so that
// the system need not save them.
class Tiles {
 public:
  Tiles() { _tile_loadconfig(&kWholeTiles); }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// Sums (kBlockRows, kNr) of 32 bits, in rows of `sums_row_bytes`, over `steps` tiles of inner
// indices, of bytes or of bfloat16: both have four bytes of a column side by side. `multiply` adds
// the products of tiles 4 and 5 with tiles 6 and 7 to tiles 0 to 3; `between` runs in each step.
template <class Multiply, class Between>
SAM_RLX_INLINE void multiply_tiles(const void* a, Index a_row_bytes, const void* b, Index steps,
                                   void* sums, Index sums_row_bytes, Multiply multiply,
                                   Between between) {
  constexpr Index kPanelRow = 4 * kNr;
  const auto* rows = static_cast<const std::uint8_t*>(a);
  const auto* panel = static_cast<const std::uint8_t*>(b);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (Index step = 0; step < steps; ++step) {
    _tile_loadd(4, rows, a_row_bytes);
    _tile_loadd(6, panel, kPanelRow);
    _tile_loadd(7, panel + kTileBytes, kPanelRow);
    _tile_loadd(5, rows + kTileRows * a_row_bytes, a_row_bytes);
    multiply();
    between();
    rows += kTileBytes;
    panel += kTileRows * kPanelRow;
  }
  auto* const out = static_cast<std::uint8_t*>(sums);
  _tile_stored(0, out, sums_row_bytes);
  _tile_stored(1, out + kTileBytes, sums_row_bytes);
  _tile_stored(2, out + kTileRows * sums_row_bytes, sums_row_bytes);
  _tile_stored(3, out + kTileRows * sums_row_bytes + kTileBytes, sums_row_bytes);
}

// Between the tile registers and C: rows of kNr sums.
constexpr Index kSumsRow = 4 * kNr;

// Fetches what whole tiles meet on their way to C while they are summed.
SAM_RLX_INLINE void prefetch_block(TileArgs t) {
  constexpr int kRows = 8;  // docs/develop/optimizations.md: amx-blocks
  for (Index r = 0; r < kBlockRows; r += kRows, t.row += kRows) prefetch_tile<kRows, kNv>(t);
}

// Adds what does not fill a tile to kInt8Mr rows of sums, and brings these to C.
void finish_block_rows(const TileArgs& t, const sam_rlx::Int8GemmArgs& g, Index done,
                       const std::int32_t* sums) {
  const Index groups = (t.k + 3) / 4;
  const std::int8_t* b = g.b + t.col * groups * 4 + done * kNr;
  IntVec products[kInt8Mr][kNv];
  for_each<kInt8Mr>([&](auto r) {
    for_each<kNv>([&](auto v) {
      products[r.value][v.value] = int_load(sums + r.value * kNr + v.value * kLanes);
    });
  });
  for (Index p = done; p < groups * 4; p += 4, b += 4 * kNr) {
    for_each<kInt8Mr>([&](auto r) {
      const Bytes av = set1_bytes(g.a + (t.row + r.value) * g.a_row_stride + p);
      for_each<kNv>([&](auto v) {
        products[r.value][v.value] =
            dot4(products[r.value][v.value], av, load_bytes(b + v.value * 4 * kLanes));
      });
    });
  }
  finish_int8_tile<kInt8Mr>(t, g, products);
}

// What is left of a product from a row on.
sam_rlx::Int8GemmArgs rows_from(const sam_rlx::Int8GemmArgs& g, Index row) {
  sam_rlx::Int8GemmArgs rest = g;
  rest.target.m -= row;
  rest.target.c += row * g.target.c_row_stride;
  if (g.target.row_bias != nullptr) rest.target.row_bias += row;
  if (g.target.residual != nullptr) rest.target.residual += row * g.target.residual_row_stride;
  rest.a += row * g.a_row_stride;
  rest.a_scale += row;
  rest.a_zero += row;
  return rest;
}

void int8_gemm_tiles(const sam_rlx::Int8GemmArgs& g) noexcept {
  const Index whole = g.target.m / kBlockRows * kBlockRows;
  const Index steps = g.target.k / kTileBytes;
  if (whole > 0) {
    sam_rlx::GemmArgs blocks = g.target;
    blocks.m = whole;
    const Tiles tiles;
    alignas(64) std::int32_t sums[kBlockRows * kNr];
    each_tile<kBlockRows>(blocks, [&](TileArgs t) {
      prefetch_block(t);
      const std::int8_t* const b = g.b + t.col * ((t.k + 3) / 4) * 4;
      multiply_tiles(
          g.a + t.row * g.a_row_stride, g.a_row_stride, b, steps, sums, kSumsRow,
          [] {
            _tile_dpbusd(0, 4, 6);
            _tile_dpbusd(1, 4, 7);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
          },
          [] {});
      t.rows = kInt8Mr;
      for (Index r = 0; r < kBlockRows; r += kInt8Mr, t.row += kInt8Mr) {
        finish_block_rows(t, g, steps * kTileBytes, sums + r * kNr);
      }
    });
  }
  if (whole < g.target.m) int8_gemm(rows_from(g, whole));
}

static_assert(sam_rlx::kBFloat16Rows == kBlockRows && sam_rlx::kBFloat16Depth * 2 == kTileBytes);
constexpr Index kLine = 32;                                           // numbers of a cache line
constexpr Index kPanelLines = kNr * sam_rlx::kBFloat16Depth / kLine;  // of a step of a panel

// A block whose sums go to C a few rows at a time, between the products of the next one: vectors
// work while tiles do. docs/develop/optimizations.md: amx-late.
struct LateBlock {
  static constexpr int kRows = 2;
  TileArgs t;  // of the next rows
  const float* sums;
  Index left;  // rows

  SAM_RLX_INLINE void finish_some() {
    if (left == 0) return;
    finish_rows();
    t.row += kRows;
    sums += kRows * kNr;
    left -= kRows;
  }
  SAM_RLX_INLINE void finish() {
    while (left > 0) finish_some();
  }

 private:
  SAM_RLX_NOINLINE void finish_rows() const noexcept {
    Vec acc[kRows][kNv];
    for_each<kRows>([&](auto i) SAM_RLX_INLINED {
      for_each<kNv>([&](auto v) SAM_RLX_INLINED {
        acc[i.value][v.value] = load(sums + i.value * kNr + v.value * kLanes);
      });
    });
    finish_sums<kRows, kNv>(t, acc);
  }
};

void bfloat16_gemm_tiles(const sam_rlx::BFloat16GemmArgs& g) noexcept {
  const Index steps = (g.target.k + sam_rlx::kBFloat16Depth - 1) / sam_rlx::kBFloat16Depth;
  const bool plain = g.target.column_bias == nullptr && g.target.row_bias == nullptr &&
                     g.target.residual == nullptr && g.target.activation == sam_rlx::kGemmNone;
  const Tiles tiles;
  alignas(64) float buffers[2][kBlockRows * kNr];
  float* sums = buffers[0];
  LateBlock late{};
  const Index panel = kNr * steps * sam_rlx::kBFloat16Depth;
  const Index row_blocks = (g.target.m + kBlockRows - 1) / kBlockRows;
  // What is multiplied next comes into the second-level cache meanwhile: the next panel, or what
  // the caller names.
  const bool named = g.next != nullptr;
  const std::uint16_t* next = g.next;
  const Index blocks = row_blocks * ((g.target.n + kNr - 1) / kNr);
  const Index named_lines = (g.next_count / kLine + blocks * steps - 1) / (blocks * steps);
  each_tile<kBlockRows>(g.target, [&](const TileArgs& t) {
    const std::uint16_t* const b = g.b + t.col / kNr * panel;
    if (!named && t.row == 0) next = b + panel;
    const Index panel_lines =
        t.col + kNr < g.target.n ? (kPanelLines + row_blocks - 1) / row_blocks : Index{0};
    const Index lines = named ? named_lines : panel_lines;
    const bool whole = t.rows == kBlockRows && t.cols == kNr;
    const bool stays = whole && plain;
    if (whole && !plain) prefetch_block(t);
    float* const out = stays ? g.target.c + t.row * g.target.c_row_stride + t.col : sums;
    multiply_tiles(
        g.a + t.row * g.a_row_stride, 2 * g.a_row_stride, b, steps, out,
        stays ? 4 * g.target.c_row_stride : kSumsRow,
        [] {
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        },
        [&] SAM_RLX_INLINED {
          late.finish_some();
          for (Index i = 0; i < lines; ++i, next += kLine) SAM_RLX_PREFETCH_FAR(next);
        });
    late.finish();
    if (whole && !stays) {
      late = {t, sums, kBlockRows};
      late.t.rows = LateBlock::kRows;
      sums = sums == buffers[0] ? buffers[1] : buffers[0];
    } else if (!stays) {
      finish_tile(t, sums);
    }
  });
  late.finish();
}

}  // namespace

void sam_rlx::amx_kernels(KernelTable& table) noexcept {
  table.name = "amx";
  table.block_bytes = 640 * 1024;  // docs/develop/optimizations.md: amx-blocks
  table.int8_mr = kBlockRows;
  table.int8_gemm = int8_gemm_tiles;
  table.bfloat16_tiles = true;
  table.reduced_products = Products::kBFloat16;
  table.bfloat16_gemm = bfloat16_gemm_tiles;
  table.softmax_bfloat16 = softmax_bfloat16;
}
