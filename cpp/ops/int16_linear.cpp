#include "ops/int16_linear.h"

#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {

void pack_int16_panels(ConstView weight, PackedMatrix& result) {
  const KernelTable& kernels = *result.kernels;
  const std::int64_t rows = round_up(result.rows, kernels.gemm_nr), k = result.cols;
  const std::int64_t depth = round_up(k, 2);
  result.bytes = allocate_aligned(static_cast<std::size_t>(rows * depth) * sizeof(std::int16_t));
  result.scales = Tensor({rows});
  auto* const out = static_cast<std::int16_t*>(result.bytes.get());
  for_each_panel(result, [&](std::int64_t first, std::int64_t count) {
    kernels.pack_int16_weight(weight.data + first * k, count, k, out + first * depth,
                              result.scales.data() + first);
  });
}

}  // namespace sam_rlx
