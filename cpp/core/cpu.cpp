#include "core/cpu.h"

#include <cstdint>

#if defined(__x86_64__)
#define SAM_RLX_X86 1
#include <cpuid.h>
#endif
#if defined(SAM_RLX_X86) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace sam_rlx {
namespace {

#if defined(SAM_RLX_X86)
struct Registers {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
  Registers r;
  __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
  return r;
}

std::uint64_t enabled_states() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

bool bit(std::uint32_t word, int position) { return ((word >> position) & 1U) != 0; }

// Whether this process may use the tile registers of AMX: Linux wants to be asked, once.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

CpuFeatures detect() {
  CpuFeatures features;
#if defined(SAM_RLX_X86)
  if (cpuid(0, 0).a < 7) return features;
  const Registers one = cpuid(1, 0);
  if (!bit(one.c, 27)) return features;  // OSXSAVE: XGETBV exists
  const std::uint64_t states = enabled_states();
  const bool ymm = (states & 0x6) == 0x6;
  const bool zmm = (states & 0xe6) == 0xe6;
  const Registers seven = cpuid(7, 0);
  features.avx2 = ymm && bit(one.c, 28) && bit(one.c, 12) && bit(one.c, 29) && bit(seven.b, 5);
  features.avx512 = features.avx2 && zmm && bit(seven.b, 16) && bit(seven.b, 17) &&
                    bit(seven.b, 30) && bit(seven.b, 31);
  const Registers seven_one = seven.a >= 1 ? cpuid(7, 1) : Registers{};
  features.avx2_vnni = features.avx2 && bit(seven_one.a, 4);
  features.avx512_vnni = features.avx512 && bit(seven.c, 11);
  features.avx512_bf16 = features.avx512_vnni && bit(seven_one.a, 5);
  constexpr std::uint32_t kGenu = 0x756e6547;  // of "GenuineIntel"
  features.slow_avx512_bf16 = cpuid(0, 0).b == kGenu;
  const bool tile_states = (states & 0x60000) == 0x60000;
  features.amx = features.avx512_vnni && tile_states && bit(seven.d, 22) && bit(seven.d, 24) &&
                 bit(seven.d, 25) && may_use_tiles();
#elif defined(__aarch64__)
  features.neon = true;
#endif
  return features;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace sam_rlx
