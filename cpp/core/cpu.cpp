#include "core/cpu.h"

#include <cstdint>

#if defined(__x86_64__)
#define SAM_RLX_X86 1
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>
#endif
#if defined(SAM_RLX_X86) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace sam_rlx {
namespace {

bool bit(std::uint64_t word, int position) { return ((word >> position) & 1U) != 0; }

// Bits of Linux' words. Numbers, because older headers lack the names.
constexpr int kHwcapDotProd = 20, kHwcap2I8mm = 13, kHwcap2Bf16 = 14;

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

#if defined(__aarch64__)
// Linux' two words; elsewhere, of the bits that arm_features reads, those that the system tells.
struct ArmWords {
  std::uint64_t hwcap = 0, hwcap2 = 0;
};
#if defined(__linux__)
ArmWords arm_words() {
  constexpr unsigned long kHwcap = 16, kHwcap2 = 26;  // AT_HWCAP, AT_HWCAP2
  return {getauxval(kHwcap), getauxval(kHwcap2)};
}
#else
#if defined(__APPLE__)
// A key that the system does not know is a feature that it does not have.
std::uint64_t feature(const char* key) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(key, &value, &size, nullptr, 0) == 0 && value != 0 ? 1 : 0;
}
// macOS 11 does not know the first key, and every Apple processor has the feature.
constexpr std::uint64_t dot_products() { return 1; }
std::uint64_t i8mm() { return feature("hw.optional.arm.FEAT_I8MM"); }
std::uint64_t bf16() { return feature("hw.optional.arm.FEAT_BF16"); }
#elif defined(_WIN32)
// Numbers, because older headers lack the names: PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE and those of
// I8MM and BF16. An older Windows says no.
std::uint64_t feature(DWORD number) { return IsProcessorFeaturePresent(number) != 0 ? 1 : 0; }
std::uint64_t dot_products() { return feature(43); }
std::uint64_t i8mm() { return feature(66); }
std::uint64_t bf16() { return feature(68); }
#else
constexpr std::uint64_t dot_products() { return 0; }
constexpr std::uint64_t i8mm() { return 0; }
constexpr std::uint64_t bf16() { return 0; }
#endif
ArmWords arm_words() {
  return {dot_products() << kHwcapDotProd, i8mm() << kHwcap2I8mm | bf16() << kHwcap2Bf16};
}
#endif
#endif

CpuFeatures detect() {
  CpuFeatures features;
#if defined(SAM_RLX_X86)
  if (cpuid(0, 0).a < 7) return features;
  const Registers one = cpuid(1, 0);
  features.clmul = bit(one.c, 1);
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
  features.amx = features.avx512_bf16 && tile_states && bit(seven.d, 22) && bit(seven.d, 24) &&
                 bit(seven.d, 25) && may_use_tiles();
#elif defined(__aarch64__)
  const ArmWords words = arm_words();
  features = arm_features(words.hwcap, words.hwcap2);
#endif
  return features;
}

}  // namespace

CpuFeatures arm_features(std::uint64_t hwcap, std::uint64_t hwcap2) {
  CpuFeatures features;
  features.neon = true;  // a part of every processor of 64 bits
  features.neon_dotprod = bit(hwcap, kHwcapDotProd);
  features.neon_i8mm = features.neon_dotprod && bit(hwcap2, kHwcap2I8mm);
  features.neon_bf16 = features.neon_i8mm && bit(hwcap2, kHwcap2Bf16);
  return features;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace sam_rlx
