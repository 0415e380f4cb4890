#include "kernels/kernel_table.h"

const sam_rlx::KernelTable& sam_rlx::avx512_kernels() noexcept {
  return sam_rlx::generic_kernels();
}
