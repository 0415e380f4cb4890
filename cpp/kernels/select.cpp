#include "kernels/select.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/cpu.h"
#include "core/error.h"
#include "kernels/kernel_table.h"

namespace sam_rlx {
namespace {

// `table` with the rows that `replace` fills anew.
[[maybe_unused]] KernelTable with_rows(KernelTable table, void (*replace)(KernelTable&) noexcept) {
  replace(table);
  return table;
}

}  // namespace

std::vector<const KernelTable*> available_kernels() {
  std::vector<const KernelTable*> tables;  // best first
  [[maybe_unused]] const CpuFeatures& cpu = cpu_features();
#if defined(SAM_RLX_HAVE_AMX)
  static const KernelTable amx = with_rows(avx512_kernels(), amx_kernels);
  if (cpu.amx) tables.push_back(&amx);
#endif
#if defined(SAM_RLX_HAVE_AVX512_VNNI)
  static const KernelTable avx512_vnni = with_rows(avx512_kernels(), avx512_vnni_kernels);
#if defined(SAM_RLX_HAVE_AVX512_BF16)
  static const KernelTable avx512_bf16 = with_rows(avx512_vnni, avx512_bf16_kernels);
  if (cpu.avx512_bf16 && !cpu.slow_avx512_bf16) tables.push_back(&avx512_bf16);
#endif
  if (cpu.avx512_vnni) tables.push_back(&avx512_vnni);
#if defined(SAM_RLX_HAVE_AVX512_BF16)
  if (cpu.avx512_bf16 && cpu.slow_avx512_bf16) tables.push_back(&avx512_bf16);
#endif
#endif
#if defined(SAM_RLX_HAVE_AVX512)
  if (cpu.avx512) tables.push_back(&avx512_kernels());
#endif
#if defined(SAM_RLX_HAVE_AVX2_VNNI)
  static const KernelTable avx2_vnni = with_rows(avx2_kernels(), avx2_vnni_kernels);
  if (cpu.avx2_vnni) tables.push_back(&avx2_vnni);
#endif
#if defined(SAM_RLX_HAVE_AVX2)
  if (cpu.avx2) tables.push_back(&avx2_kernels());
#endif
#if defined(SAM_RLX_HAVE_NEON)
  static const KernelTable neon_dotprod = with_rows(neon_kernels(), neon_dotprod_kernels);
  static const KernelTable neon_i8mm = with_rows(neon_dotprod, neon_i8mm_kernels);
  static const KernelTable neon_bf16 = with_rows(neon_i8mm, neon_bf16_kernels);
  if (cpu.neon_bf16) tables.push_back(&neon_bf16);
  if (cpu.neon_i8mm) tables.push_back(&neon_i8mm);
  if (cpu.neon_dotprod) tables.push_back(&neon_dotprod);
  if (cpu.neon) tables.push_back(&neon_kernels());
#endif
  tables.push_back(&generic_kernels());
  return tables;
}

std::vector<std::string> compiled_isas() {
  return {
#if defined(SAM_RLX_HAVE_AMX)
      "amx",
#endif
#if defined(SAM_RLX_HAVE_AVX512_BF16)
      "avx512_bf16",
#endif
#if defined(SAM_RLX_HAVE_AVX512_VNNI)
      "avx512_vnni",
#endif
#if defined(SAM_RLX_HAVE_AVX512)
      "avx512",
#endif
#if defined(SAM_RLX_HAVE_AVX2_VNNI)
      "avx2_vnni",
#endif
#if defined(SAM_RLX_HAVE_AVX2)
      "avx2",
#endif
#if defined(SAM_RLX_HAVE_NEON)
      "neon_bf16",   "neon_i8mm", "neon_dotprod", "neon",
#endif
      "generic",
  };
}

const KernelTable& select_kernels(const char* name) {
  const std::vector<const KernelTable*> tables = available_kernels();
  const char* where = name == nullptr ? "SAM_RLX_ISA" : "isa";
  if (name == nullptr) name = std::getenv(where);
  if (name == nullptr || *name == '\0') return *tables.front();
  std::string known;
  for (const KernelTable* table : tables) {
    if (std::strcmp(table->name, name) == 0) return *table;
    known += (known.empty() ? "" : ", ") + std::string(table->name);
  }
  fail<UnsupportedError>(where, "one of " + known + " on this processor", name);
}

}  // namespace sam_rlx
