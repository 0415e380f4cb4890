#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/kernel_table.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/packed_gemm.h"
#include "testing/register.h"
#include "testing/testing.h"

namespace py = pybind11;
using namespace py::literals;

namespace sam_rlx {
namespace {

using Isa = std::optional<std::string>;

// (bytes (rows, cols), scale (rows,), zero (rows,)) of the rows of x.
py::tuple quantized_rows(const FloatArray& x, const Isa& isa) {
  constexpr std::int64_t kAlign = 64;
  const std::int64_t rows = x.shape(0), cols = x.shape(1);
  const KernelTable& kernels = select_kernels(isa ? isa->c_str() : nullptr);
  const PanelShape shape = kernels.int8_panels;
  const std::int64_t stride = round_up(cols, kAlign);
  std::vector<std::uint8_t> padded(
      static_cast<std::size_t>(round_up(rows, shape.left_rows) * stride));
  py::array_t<float> scale(rows);
  py::array_t<std::int32_t> zero(rows);
  kernels.quantize_rows({.rows = rows,
                         .cols = cols,
                         .x = x.data(),
                         .out = padded.data(),
                         .out_stride = stride,
                         .scale = scale.mutable_data(),
                         .zero = zero.mutable_data()});
  py::array_t<std::uint8_t> bytes({rows, cols});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t p = 0; p < cols; ++p) {
      const auto at = static_cast<std::size_t>(panel_position(shape, stride, i, p));
      bytes.mutable_at(i, p) = static_cast<std::uint8_t>(padded[at] ^ kernels.int8_flip);
    }
  }
  return py::make_tuple(bytes, scale, zero);
}

// (bytes (n, k), scale (n,), sum (n,)) of a packed weight, taken out of its panels.
py::tuple pack_int8(const FloatArray& weight, const Isa& isa) {
  const KernelTable& kernels = select_kernels(isa ? isa->c_str() : nullptr);
  const PackedMatrix packed = pack_matrix(kernels, view_of(weight), WeightFormat::kInt8);
  const std::int64_t n = packed.rows, k = packed.cols;
  const PanelShape shape = right_shape(kernels, kernels.int8_panels);
  const auto* const panels = static_cast<const std::int8_t*>(packed.bytes.get());
  py::array_t<std::int8_t> bytes({n, k});
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t p = 0; p < k; ++p) {
      bytes.mutable_at(j, p) = panels[panel_position(shape, round_up(k, shape.depth), j, p)];
    }
  }
  return py::make_tuple(bytes, py::array_t<float>(n, packed.scales.data()),
                        py::array_t<std::int32_t>(n, packed.sums.data()));
}

BlockRows block_rows(const py::array_t<std::uint8_t, py::array::c_style>& bytes,
                     const std::string& format, std::int64_t cols) {
  BlockRows rows{block_format_named(format), bytes.shape(0), cols,
                 allocate_aligned(static_cast<std::size_t>(bytes.size()))};
  std::copy_n(bytes.data(), bytes.size(), static_cast<std::uint8_t*>(rows.bytes.get()));
  return rows;
}

void register_block_linear(py::module_& ops) {
  ops.def(
      "linear_blocks",
      [](const FloatArray& x, const py::array_t<std::uint8_t, py::array::c_style>& weight,
         const std::string& format, const std::optional<FloatArray>& bias, bool gelu,
         const std::optional<FloatArray>& residual, bool in_place, const Isa& isa,
         int num_threads) {
        TestContext test(isa, num_threads);
        const PackedMatrix packed =
            pack_blocks(test.context.kernels, block_rows(weight, format, x.shape(x.ndim() - 1)));
        FloatArray out = make_array(shape_of(x).with_last(packed.rows));
        Epilogue epilogue{.bias = data_of(bias),
                          .activation = gelu ? Activation::kGelu : Activation::kNone,
                          .residual = view_of(residual)};
        if (in_place) {  // the residual is in the result's memory
          copy_(test.context, mutable_view_of(out), epilogue.residual);
          epilogue.residual = view_of(out);
        }
        linear(test.context, view_of(x), packed, epilogue, mutable_view_of(out));
        return out;
      },
      "x"_a, "weight"_a, "format"_a, "bias"_a = py::none(), "gelu"_a = false,
      "residual"_a = py::none(), "in_place"_a = false, "isa"_a = py::none(), "num_threads"_a = 1);
}

}  // namespace

void register_quantized(py::module_& module) {
  py::module_ ops = module.attr("ops");
  ops.def("quantize_rows", &quantized_rows, "x"_a, "isa"_a = py::none());
  register_block_linear(ops);
  ops.def("pack_int8", &pack_int8, "weight"_a, "isa"_a = py::none());
}

}  // namespace sam_rlx
