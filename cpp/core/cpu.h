#pragma once

#include <cstdint>

namespace sam_rlx {

// What the processor and the operating system together allow.
struct CpuFeatures {
  bool clmul = false;        // PCLMULQDQ: carry-less products of words
  bool avx2 = false;         // AVX2, FMA and F16C, and the OS saves YMM registers
  bool avx512 = false;       // AVX-512 F, BW, DQ and VL, and the OS saves ZMM registers
  bool avx2_vnni = false;    // avx2 and AVX-VNNI
  bool avx512_vnni = false;  // avx512 and AVX-512 VNNI
  bool avx512_bf16 = false;  // avx512_vnni and AVX-512 BF16
  // Its products of bfloat16 outside of AMX are half as fast as those of float32: Intel's cores.
  bool slow_avx512_bf16 = false;
  bool amx = false;  // avx512_vnni and AMX's tiles of bytes and bfloat16
  bool neon = false;
  bool neon_dotprod = false;  // SDOT
  bool neon_i8mm = false;     // neon_dotprod and products of blocks of bytes
  bool neon_bf16 = false;     // neon_i8mm and products of blocks of bfloat16
};

// What a processor of 64-bit ARM has, by the words that Linux tells a process in its auxiliary
// vector, AT_HWCAP and AT_HWCAP2.
CpuFeatures arm_features(std::uint64_t hwcap, std::uint64_t hwcap2);

// Asked once. Compiled with baseline flags.
const CpuFeatures& cpu_features();

}  // namespace sam_rlx
