#include "layers/fold.h"

// Eigen's blocks of a product, 128 kB each by default, are more than the stack of a small thread.
#define EIGEN_STACK_ALLOCATION_LIMIT 4096
#include <Eigen/Core>
#include <algorithm>

#include "core/cores.h"
#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Input = Eigen::Map<const Matrix>;
using Output = Eigen::Map<Matrix>;

constexpr std::int64_t kFoldedColumns = 512;  // of a product, at a time

}  // namespace

Tensor folded_weight(ConstView weight, ConstView inner, int axis) {
  const std::int64_t out = weight.shape[0], mid = inner.shape[axis];
  if (mid < 1 || weight.numel() != out * mid) fail_internal("folded_weight: sizes do not match");
  std::int64_t batch = 1;
  for (int i = 0; i < axis; ++i) batch *= inner.shape[i];
  const std::int64_t length = inner.numel() / (batch * mid);
  Shape shape = inner.shape;
  shape[axis] = out;
  Tensor result(shape);
  const Eigen::MatrixXd left = Input(weight.data, out, mid).cast<double>();
  // The blocks of columns do not depend on the number of threads, so neither do sums.
  const std::int64_t blocks = (length + kFoldedColumns - 1) / kFoldedColumns;
  const std::int64_t work = out * mid * std::min(length, kFoldedColumns);
  parallel_for(
      {loading_threads(batch * blocks * work), batch * blocks, 1, work},
      [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t i = block / blocks, first = block % blocks * kFoldedColumns;
          const std::int64_t columns = std::min(kFoldedColumns, length - first);
          const Input right(inner.data + i * mid * length, mid, length);
          Output(result.data() + i * out * length, out, length).middleCols(first, columns) =
              (left * right.middleCols(first, columns).cast<double>()).cast<float>();
        }
      });
  return result;
}

Tensor folded_bias(ConstView weight, ConstView bias, ConstView inner) {
  const std::int64_t out = weight.shape[0], mid = inner.numel();
  if (weight.numel() != out * mid || (bias && bias.numel() != out)) {
    fail_internal("folded_bias: sizes do not match");
  }
  Eigen::MatrixXd sums =
      Input(weight.data, out, mid).cast<double>() * Input(inner.data, mid, 1).cast<double>();
  if (bias) sums += Input(bias.data, out, 1).cast<double>();
  Tensor result({out});
  Output(result.data(), out, 1) = sums.cast<float>();
  return result;
}

void absorb(Affine layer, Affine next, int axis) {
  layer.bias = folded_bias(next.weight, next.bias, layer.bias);
  layer.weight = folded_weight(next.weight, layer.weight, axis);
  next.weight = Tensor();
  next.bias = Tensor();
}

Tensor transposed(ConstView x) {
  const std::int64_t rows = x.shape[0], cols = x.numel() / rows;
  Tensor result({cols, rows});
  Output(result.data(), cols, rows) = Input(x.data, rows, cols).transpose();
  return result;
}

}  // namespace sam_rlx
