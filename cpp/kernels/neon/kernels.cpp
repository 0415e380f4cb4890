#include "kernels/kernel_table.h"

const sam_rlx::KernelTable& sam_rlx::neon_kernels() noexcept { return sam_rlx::generic_kernels(); }
