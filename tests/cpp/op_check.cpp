// Holds ops on short numbers to each other, for each kernel table that this processor can run:
// their operands are packed by one kernel and read by another one, in layouts of the table. Needs
// core, kernels and a few ops, so that it can be built for another processor and run in an
// emulator. Exit status 0: all agree.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "core/half.h"
#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "ops/attention.h"
#include "ops/linear.h"

namespace {

using sam_rlx::ConstView;
using sam_rlx::Context;
using sam_rlx::KernelTable;
using sam_rlx::Products;
using sam_rlx::Tensor;
using sam_rlx::View;
using sam_rlx::WeightFormat;

constexpr int kThreads = 2;
int failures = 0;

void expect(bool right, const KernelTable& table, const char* what, std::int64_t size) {
  if (right) return;
  ++failures;
  std::printf("%s: %s differs, size %lld\n", table.name, what, static_cast<long long>(size));
}

Tensor random_tensor(const sam_rlx::Shape& shape) {
  Tensor out(shape);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    state = state * 1664525U + 1013904223U;
    out.data()[i] = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0F;
  }
  return out;
}

float to_bfloat16(float x) { return sam_rlx::bfloat16_to_float(sam_rlx::float_to_bfloat16(x)); }

Tensor run_linear(const KernelTable& table, const Tensor& x, const Tensor& w, WeightFormat format) {
  sam_rlx::Workspace workspace;
  Context ctx{table, workspace, kThreads};
  Tensor out({x.shape()[0], w.shape()[0]});
  const sam_rlx::PackedMatrix packed = sam_rlx::pack_matrix(table, w.view(), format);
  sam_rlx::linear(ctx, x.view(), packed, {}, out.view());
  return out;
}

// Bytes: the bits of the generic table. bfloat16: near the float64 sum of rounded numbers, or of
// the numbers themselves where products are of integers.
void check_linear(const KernelTable& table, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Tensor x = random_tensor({m, k}), w = random_tensor({n, k});
  const Tensor bytes = run_linear(table, x, w, WeightFormat::kInt8);
  const Tensor same = run_linear(sam_rlx::generic_kernels(), x, w, WeightFormat::kInt8);
  const auto size = static_cast<std::size_t>(m * n) * sizeof(float);
  expect(std::memcmp(bytes.data(), same.data(), size) == 0, table, "int8 linear", k);
  const Tensor y = run_linear(table, x, w, WeightFormat::kBFloat16);
  const bool halves = table.reduced_products == Products::kBFloat16;
  const bool integers = table.reduced_products == Products::kInt16;
  const double bound = integers ? 1e-3 : 1e-5;
  bool near = true;
  for (std::int64_t i = 0; i < m * n; ++i) {
    double sum = 0.0, magnitude = 0.0;
    for (std::int64_t p = 0; p < k; ++p) {
      const float a = x.data()[i / n * k + p], b = w.data()[i % n * k + p];
      const double product = static_cast<double>(halves ? to_bfloat16(a) : a) *
                             static_cast<double>(integers ? b : to_bfloat16(b));
      sum += product;
      magnitude += std::abs(product);
    }
    near = near && std::abs(static_cast<double>(y.data()[i]) - sum) <= bound * magnitude;
  }
  expect(near, table, "bfloat16 linear", k);
}

Tensor run_attention(const KernelTable& table, const Tensor& qkv, std::int64_t heads,
                     Products products) {
  sam_rlx::Workspace workspace;
  Context ctx{table, workspace, kThreads};
  const std::int64_t height = qkv.shape()[1], width = qkv.shape()[2], channels = qkv.shape()[3] / 3;
  Tensor out({1, height, width, channels});
  sam_rlx::WindowAttentionArgs args;
  args.qkv = qkv.view();
  args.grid = {height, width, 0};
  args.num_heads = heads;
  args.scale = 3.0F / std::sqrt(static_cast<float>(channels / heads));
  args.products = products;
  sam_rlx::window_attention(ctx, args, out.view());
  return out;
}

// In bfloat16 of numbers that are so already: only the softmax's weights are rounded. In 16 bits.
void check_attention(const KernelTable& table, std::int64_t height, std::int64_t width,
                     std::int64_t heads, std::int64_t dim) {
  Tensor qkv = random_tensor({1, height, width, 3 * heads * dim});
  for (std::int64_t i = 0; i < qkv.numel(); ++i) qkv.data()[i] = to_bfloat16(qkv.data()[i]);
  const Tensor truth = run_attention(sam_rlx::generic_kernels(), qkv, heads, Products::kFloat32);
  for (const auto products : {Products::kBFloat16, Products::kInt16}) {
    const Tensor found = run_attention(table, qkv, heads, products);
    bool near = true;
    for (std::int64_t i = 0; i < found.numel(); ++i) {
      near = near && std::abs(found.data()[i] - truth.data()[i]) <= 1.0F / 256.0F;
    }
    const bool halves = products == Products::kBFloat16;
    expect(near, table, halves ? "bfloat16 attention" : "attention of 16 bits", height * width);
  }
}

}  // namespace

int main() {
  for (const KernelTable* table : sam_rlx::available_kernels()) {
    const int before = failures;
    for (const std::int64_t m : {1, 5, 19, 45}) {
      for (const std::int64_t n : {1, 13, 36, 70}) {
        for (const std::int64_t k : {1, 9, 64, 131}) check_linear(*table, m, n, k);
      }
    }
    check_attention(*table, 3, 3, 1, 8);
    check_attention(*table, 9, 9, 2, 20);
    check_attention(*table, 17, 18, 1, 70);  // more keys than a block has
    std::printf("%s: %d failures\n", table->name, failures - before);
  }
  return failures == 0 ? 0 : 1;
}
