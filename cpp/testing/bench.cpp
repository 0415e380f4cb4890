#include "testing/bench.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "core/tensor.h"
#include "kernels/kernel_table.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/position_attention.h"
#include "ops/resize.h"
#include "ops/resize_antialias.h"
#include "ops/rope.h"
#include "ops/squeeze_excite.h"
#include "ops/weighted_conv.h"
#include "testing/chains/chains.h"
#include "testing/register.h"

namespace py = pybind11;
using namespace py::literals;

namespace sam_rlx {
namespace {

using Chains = float (*)(std::int64_t rounds) noexcept;

// Those of the widest registers that a table uses.
Chains chains_of(const Isa& isa) {
  [[maybe_unused]] const std::string name = select_kernels(isa ? isa->c_str() : nullptr).name;
#if defined(SAM_RLX_HAVE_AVX512)
  if (name.starts_with("avx512") || name == "amx") return avx512_chains;
#endif
#if defined(SAM_RLX_HAVE_AVX2)
  if (name.starts_with("avx2")) return avx2_chains;
#endif
#if defined(SAM_RLX_HAVE_NEON)
  if (name.starts_with("neon")) return neon_chains;
#endif
  return generic_chains;
}

float chains(std::int64_t rounds, const Isa& isa) { return chains_of(isa)(rounds); }

Times time_peak(int repetitions, std::int64_t pieces, const Isa& isa, int num_threads) {
  const Chains run = chains_of(isa);
  return measure(repetitions, [&] {
    parallel_for(num_threads, pieces, 1, [&](std::int64_t, std::int64_t, int) {
      [[maybe_unused]] volatile float sink = run(1 << 12);
    });
  });
}

Times time_linear(std::int64_t m, std::int64_t k, std::int64_t n, bool gelu, bool residual,
                  const std::string& format, int repetitions, const Isa& isa, int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor x = random_tensor({m, k}), weight = random_tensor({n, k});
  const Tensor bias = random_tensor({n}), other = random_tensor({residual ? m : 0, n});
  const PackedMatrix packed =
      pack_matrix(test.context.kernels, weight, weight_format_named(format));
  Epilogue epilogue{bias.data(), gelu ? Activation::kGelu : Activation::kNone, {}};
  if (residual) epilogue.residual = other;
  Tensor out({m, n});
  return measure(repetitions, [&] { linear(test.context, x, packed, epilogue, out); });
}

// The same with a weight in blocks of random bytes, too small for the halves to be infinite.
Times time_linear_blocks(std::int64_t m, std::int64_t k, std::int64_t n, const std::string& format,
                         int repetitions, const Isa& isa, int num_threads) {
  TestContext test(isa, num_threads);
  const BlockFormat found = block_format_named(format);
  const std::int64_t bytes = n * k / block_facts(found).numbers * block_facts(found).bytes;
  BlockRows rows{found, n, k, allocate_aligned(static_cast<std::size_t>(bytes))};
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < bytes; ++i) {
    state = state * 1664525U + 1013904223U;
    static_cast<std::uint8_t*>(rows.bytes.get())[i] = static_cast<std::uint8_t>(state >> 26);
  }
  const PackedMatrix packed = pack_blocks(test.context.kernels, std::move(rows));
  const Tensor x = random_tensor({m, k});
  Tensor out({m, n});
  return measure(repetitions, [&] { linear(test.context, x, packed, {}, out); });
}

// Channels: in and out.
Times time_conv2d(std::int64_t side, std::pair<std::int64_t, std::int64_t> channels,
                  const std::array<std::int64_t, 3>& window, int repetitions, const Isa& isa,
                  int num_threads) {
  TestContext test(isa, num_threads);
  const ConvWindow sizes{window[0], window[1], window[2]};
  const auto [in, out_channels] = channels;
  const Tensor x = random_tensor({1, side, side, in});
  const PackedMatrix packed = pack_conv(
      test.context.kernels, random_tensor({out_channels, in, sizes.kernel, sizes.kernel}));
  Tensor out({1, sizes.out_size(side), sizes.out_size(side), out_channels});
  return measure(repetitions, [&] { conv2d(test.context, x, sizes, packed, {}, out); });
}

Times time_window_attention(std::int64_t side, std::int64_t heads, std::int64_t head_dim,
                            std::int64_t window, bool rel_pos, int repetitions, bool distance_bias,
                            const Isa& isa, int num_threads) {
  TestContext test(isa, num_threads);
  const std::int64_t channels = heads * head_dim;
  const Tensor qkv = random_tensor({1, side, side, 3 * channels});
  const Tensor table = random_tensor({2 * (window == 0 ? side : window) - 1, head_dim});
  const Tensor pad = random_tensor({3 * channels});
  WindowAttentionArgs args;
  args.qkv = qkv;
  args.grid = {side, side, window};
  args.num_heads = heads;
  args.scale = 0.125F;
  if (rel_pos) args.rel_pos = {table.data(), table.data()};
  const std::int64_t window_side = window == 0 ? side : window;
  const Tensor biases = random_tensor({heads, window_side, window_side});
  const DistanceTerms distances = pack_distances(test.context, biases, args.grid);
  if (distance_bias) args.distances = &distances;
  args.pad_qkv = pad.data();
  Tensor out({1, side, side, channels});
  return measure(repetitions, [&] { window_attention(test.context, args, out); });
}

Times time_depthwise_conv(std::int64_t side, std::int64_t channels, std::int64_t size,
                          int repetitions, std::int64_t stride, const Isa& isa, int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor x = random_tensor({1, side, side, channels});
  const Tensor weight = random_tensor({size * size, channels}), bias = random_tensor({channels});
  const std::int64_t out_side = (side - 1) / stride + 1;
  Tensor out({1, out_side, out_side, channels});
  const DepthwiseArgs args{weight, bias, stride};
  return measure(repetitions, [&] { depthwise_conv(test.context, x, args, out); });
}

Times time_squeeze_excite(std::int64_t side, std::int64_t channels, int repetitions, const Isa& isa,
                          int num_threads) {
  TestContext test(isa, num_threads);
  Tensor x = random_tensor({1, side, side, channels}), means({1, channels});
  return measure(repetitions, [&] {
    channel_means(test.context, x, means);
    gate_channels_(test.context, x, means);
  });
}

Times time_weighted_conv(std::int64_t side, std::int64_t channels, int repetitions, const Isa& isa,
                         int num_threads) {
  TestContext test(isa, num_threads);
  const std::int64_t count = channels / 2;
  const Tensor map = random_tensor({side, side, channels});
  const Tensor beside = random_tensor({side, side, count});
  const Tensor weight = random_tensor({count, channels, 3, 3}), bias = random_tensor({count});
  const Tensor weights = random_tensor({count});
  Tensor out({side, side});
  const WeightedConvArgs args{map, weight, bias, weights, beside};
  return measure(repetitions, [&] { weighted_conv3x3(test.context, args, out); });
}

// Keys of maps (N, side * side, K), projected and turned.
struct TurnedKeys final : KeyMaker {
  const Tensor& inputs;
  const PackedMatrix& weight;
  const Tensor& bias;
  const AxialAngles& angles;

  TurnedKeys(const Tensor& x, const PackedMatrix& w, const Tensor& b, const AxialAngles& turns)
      : inputs(x), weight(w), bias(b), angles(turns) {}
  void make(Context& ctx, std::size_t, std::int64_t first, View out) const override {
    const std::int64_t width = inputs.shape().last();
    const ConstView rows{inputs.data() + first * width, {out.shape[0], width}};
    linear(ctx, rows, weight, {bias.data()}, out);
    rotate_rows_(ctx, angles, first, out);
  }
};

// Queries of a map attend to `maps` maps of `inputs` channels with rotary keys: with keys that are
// projected first, or without and beside layers of `format`.
Times time_position_attention(std::int64_t side, std::int64_t maps, bool factored, int repetitions,
                              const std::string& format, const Isa& isa, int num_threads) {
  constexpr std::int64_t kChannels = 256, kInputs = 64;
  TestContext test(isa, num_threads);
  Context& ctx = test.context;
  const std::int64_t positions = side * side;
  const Tensor query = random_tensor({positions, kChannels});
  const Tensor features = random_tensor({maps, positions, kInputs}),
               pos = random_tensor({positions, 64});
  const Tensor weight = random_tensor({kChannels, kInputs}), bias = random_tensor({kChannels});
  const Tensor angles = random_tensor({side, kChannels / 4});
  const AxialAngles table{side, angles, angles};
  const PackedMatrix packed = pack_matrix(ctx.kernels, weight);
  const Products products = position_products_beside(ctx.kernels, weight_format_named(format));
  const PositionProjection projection = pack_position_projection(
      ctx.kernels, weight, bias, {side, angles, angles, angles.view()[0], angles.view()[0]},
      products);
  Tensor out({positions, kInputs});
  return measure(repetitions, [&] {
    const Workspace::Scope scratch(ctx.workspace);
    if (factored) {
      std::vector<PositionMap> given;
      for (std::int64_t i = 0; i < maps; ++i) given.push_back({features.view()[i], pos, {}});
      const PackedPositions keys = pack_positions(ctx, side, given, {}, {}, products);
      position_attention(ctx, {query, projection, keys, 0.0625F}, out);
      return;
    }
    const TurnedKeys keys(features, packed, bias, table);
    const AttentionPart part{{features.data(), kInputs}, maps * positions};
    attention_to_parts(
        ctx, {kChannels, kInputs, 0.0625F, {query.data(), kChannels}, positions, {&part, 1}, keys},
        out);
  });
}

Times time_layer_norm(std::int64_t rows, std::int64_t cols, int repetitions, const Isa& isa,
                      int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor x = random_tensor({rows, cols}), weight = random_tensor({cols});
  Tensor out({rows, cols});
  return measure(repetitions, [&] { layer_norm(test.context, x, weight, weight, 1e-6F, out); });
}

Times time_gelu(std::int64_t count, int repetitions, const Isa& isa, int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor x = random_tensor({count});
  Tensor out = Tensor::copy_of(x);
  return measure(repetitions, [&] { activation_(test.context, Activation::kGelu, out); });
}

Times time_copy(std::int64_t count, int repetitions, int num_threads) {
  constexpr std::int64_t kGrain = 1 << 16;
  const Tensor x = random_tensor({count});
  Tensor out({count});
  return measure(repetitions, [&] {
    parallel_for(num_threads, count, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(out.data() + begin, x.data() + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  });
}

Times time_rotate(std::int64_t side, std::int64_t channels, int repetitions, const Isa& isa,
                  int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor angles = random_tensor({side, channels / 4});
  Tensor x = random_tensor({side * side, channels});
  return measure(repetitions, [&] { rotate_(test.context, {side, angles, angles}, x); });
}

Times time_max_pool(std::int64_t side, std::int64_t channels, int repetitions, const Isa& isa,
                    int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor x = random_tensor({1, side, side, channels});
  Tensor out({1, side / 2, side / 2, channels});
  return measure(repetitions, [&] { max_pool2x2(test.context, x, out); });
}

Times time_resize(std::int64_t side, std::int64_t out_side, bool antialias, int repetitions,
                  const Isa& isa, int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor x = random_tensor({3, side, side});
  Tensor out({3, out_side, out_side});
  const auto resize = antialias ? resize_bilinear_antialias : resize_bilinear;
  return measure(repetitions, [&] { resize(test.context, x, out); });
}

// Indices of the rows of a table that hold no function.
std::vector<std::size_t> missing_kernels(const std::string& isa) {
  const KernelTable& table = select_kernels(isa.c_str());
  constexpr std::size_t kFirst = offsetof(KernelTable, gemm);
  std::vector<std::size_t> missing;
  for (std::size_t at = kFirst; at < sizeof(KernelTable); at += sizeof(std::uintptr_t)) {
    std::uintptr_t row = 0;
    std::memcpy(&row, reinterpret_cast<const char*>(&table) + at, sizeof row);
    if (row == 0) missing.push_back((at - kFirst) / sizeof row);
  }
  return missing;
}

// How often a pass through the ops asks for memory after equal ones.
std::int64_t steady_state_allocations(const std::string& isa, int num_threads) {
  TestContext test(isa, num_threads);
  const Tensor x = random_tensor({1, 20, 24, 48}), weight = random_tensor({144, 48});
  const Tensor table = random_tensor({47, 16}), pad = random_tensor({144});
  std::vector<PackedMatrix> formats;
  for (const WeightFormat format :
       {WeightFormat::kFloat32, WeightFormat::kBFloat16, WeightFormat::kInt8}) {
    formats.push_back(pack_matrix(test.context.kernels, weight, format));
  }
  const PackedMatrix conv = pack_conv(test.context.kernels, random_tensor({8, 48, 3, 3}));
  const auto pass = [&] {
    const Workspace::Scope scratch(test.context.workspace);
    const View qkv = test.context.workspace.floats({1, 20, 24, 144});
    for (const PackedMatrix& packed : formats) linear(test.context, x, packed, {}, qkv);
    const View out = test.context.workspace.floats({1, 20, 24, 48});
    for (const std::int64_t window : {0, 14}) {
      window_attention(test.context,
                       {qkv, {20, 24, window}, 3, 0.25F, {table.data(), table.data()}, pad.data()},
                       out);
    }
    layer_norm(test.context, out, ConstView(pad.data(), {48}), ConstView(pad.data(), {48}), 1e-6F,
               out);
    conv2d(test.context, out, kConv3x3, conv, {}, test.context.workspace.floats({1, 20, 24, 8}));
  };
  pass();
  pass();  // joins the blocks that the first pass asked for
  const std::int64_t before = allocation_count();
  pass();
  return allocation_count() - before;
}

}  // namespace

void register_bench(py::module_& module) {
  py::module_ bench = module.def_submodule("bench", "Times of ops, without Python around them.");
  bench.def("peak", &time_peak, "repetitions"_a, "pieces"_a = 1, "isa"_a = py::none(),
            "num_threads"_a = 1);
  bench.def("chains", &chains, "rounds"_a, "isa"_a = py::none());
  bench.def("linear", &time_linear, "m"_a, "k"_a, "n"_a, "gelu"_a = false, "residual"_a = false,
            "format"_a = "float32", "repetitions"_a = 5, "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("linear_blocks", &time_linear_blocks, "m"_a, "k"_a, "n"_a, "format"_a,
            "repetitions"_a = 5, "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("conv2d", &time_conv2d, "side"_a, "channels"_a, "window"_a, "repetitions"_a = 5,
            "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("window_attention", &time_window_attention, "side"_a, "heads"_a, "head_dim"_a,
            "window"_a, "rel_pos"_a = true, "repetitions"_a = 5, "distance_bias"_a = false,
            "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("depthwise_conv", &time_depthwise_conv, "side"_a, "channels"_a, "size"_a = 7,
            "repetitions"_a = 5, "stride"_a = 1, "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("squeeze_excite", &time_squeeze_excite, "side"_a, "channels"_a, "repetitions"_a = 5,
            "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("weighted_conv", &time_weighted_conv, "side"_a, "channels"_a, "repetitions"_a = 5,
            "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("position_attention", &time_position_attention, "side"_a, "maps"_a, "factored"_a,
            "repetitions"_a = 5, "format"_a = "float32", "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("layer_norm", &time_layer_norm, "rows"_a, "cols"_a, "repetitions"_a = 5,
            "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("gelu", &time_gelu, "count"_a, "repetitions"_a = 5, "isa"_a = py::none(),
            "num_threads"_a = 1);
  bench.def("copy", &time_copy, "count"_a, "repetitions"_a = 5, "num_threads"_a = 1);
  bench.def("rotate", &time_rotate, "side"_a, "channels"_a, "repetitions"_a = 5,
            "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("max_pool", &time_max_pool, "side"_a, "channels"_a, "repetitions"_a = 5,
            "isa"_a = py::none(), "num_threads"_a = 1);
  bench.def("resize", &time_resize, "side"_a, "out_side"_a, "antialias"_a = false,
            "repetitions"_a = 5, "isa"_a = py::none(), "num_threads"_a = 1);
  module.def("missing_kernels", &missing_kernels, "isa"_a);
  module.def("steady_state_allocations", &steady_state_allocations, "isa"_a, "num_threads"_a = 1);
}

}  // namespace sam_rlx
