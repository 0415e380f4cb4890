#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "bindings/testing.h"
#include "bindings/testing_register.h"
#include "kernels/kernel_table.h"
#include "ops/linear.h"

namespace py = pybind11;
using namespace py::literals;

namespace sam_rlx {
namespace {

using Isa = std::optional<std::string>;

// (bytes (rows, cols), scale (rows,), zero (rows,)) of the rows of x.
py::tuple quantise_rows(const FloatArray& x, const Isa& isa) {
  constexpr std::int64_t kAlign = 64;
  const std::int64_t rows = x.shape(0), cols = x.shape(1);
  const std::int64_t stride = (cols + kAlign - 1) / kAlign * kAlign;
  py::array_t<std::uint8_t> padded({rows, stride});
  py::array_t<float> scale(rows);
  py::array_t<std::int32_t> zero(rows);
  select_kernels(isa ? isa->c_str() : nullptr)
      .quantise_rows({.rows = rows,
                      .cols = cols,
                      .x = x.data(),
                      .out = padded.mutable_data(),
                      .out_stride = stride,
                      .scale = scale.mutable_data(),
                      .zero = zero.mutable_data()});
  py::array_t<std::uint8_t> bytes({rows, cols});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t p = 0; p < cols; ++p) bytes.mutable_at(i, p) = padded.at(i, p);
  }
  return py::make_tuple(bytes, scale, zero);
}

// (bytes (n, k), scale (n,), sum (n,)) of a packed weight, taken out of its panels.
py::tuple pack_int8(const FloatArray& weight, const Isa& isa) {
  const KernelTable& kernels = select_kernels(isa ? isa->c_str() : nullptr);
  const PackedMatrix packed = pack_matrix(kernels, view_of(weight), WeightFormat::kInt8);
  const std::int64_t n = packed.rows, k = packed.cols, nr = kernels.gemm_nr;
  const std::int64_t groups = (k + 3) / 4;
  const auto* const panels = static_cast<const std::int8_t*>(packed.bytes.get());
  py::array_t<std::int8_t> bytes({n, k});
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t p = 0; p < k; ++p) {
      bytes.mutable_at(j, p) = panels[((j / nr * groups + p / 4) * nr + j % nr) * 4 + p % 4];
    }
  }
  return py::make_tuple(bytes, py::array_t<float>(n, packed.scales.data()),
                        py::array_t<std::int32_t>(n, packed.sums.data()));
}

}  // namespace

void register_quantised(py::module_& module) {
  py::module_ ops = module.attr("ops");
  ops.def("quantise_rows", &quantise_rows, "x"_a, "isa"_a = py::none());
  ops.def("pack_int8", &pack_int8, "weight"_a, "isa"_a = py::none());
}

}  // namespace sam_rlx
