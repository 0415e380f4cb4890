#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/errors.h"
#include "core/cores.h"
#include "core/cpu.h"
#include "core/parallel.h"
#include "core/tensor.h"
#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "testing/register.h"

namespace py = pybind11;

PYBIND11_MODULE(_testing, m, py::mod_gil_not_used()) {
  m.doc() = "Opens ops and layers to the tests. Never in a wheel.";
  sam_rlx::install_fork_handler();
  sam_rlx::register_errors(m);
  sam_rlx::register_checkpoint(m);
  sam_rlx::register_layers(m);
  sam_rlx::register_masklets(m);
  sam_rlx::register_memory_rules(m);
  sam_rlx::register_masks(m);
  sam_rlx::register_ops(m);
  sam_rlx::register_detector_ops(m);
  sam_rlx::register_quantized(m);
  sam_rlx::register_sam2_image(m);
  sam_rlx::register_bench(m);
  sam_rlx::register_kernel_bench(m);
  sam_rlx::register_sam2(m);
  sam_rlx::register_sam3(m);
  sam_rlx::register_trace(m);
  m.def("allocation_count", sam_rlx::allocation_count);
  m.def("quota_cores", sam_rlx::quota_cores, py::arg("root"), py::arg("memberships"));
  m.def("current_core", sam_rlx::current_core);
  m.def("leave_core", sam_rlx::leave_core, py::arg("core"), py::arg("team"));
  m.def("compiled_isas", [] { return py::cast(sam_rlx::compiled_isas()); });
  // Names of ARM's tables, best first, for a processor with these words.
  m.def(
      "arm_isas",
      [](std::uint64_t hwcap, std::uint64_t hwcap2) {
        const sam_rlx::CpuFeatures cpu = sam_rlx::arm_features(hwcap, hwcap2);
        py::list names;
        if (cpu.neon_bf16) names.append("neon_bf16");
        if (cpu.neon_i8mm) names.append("neon_i8mm");
        if (cpu.neon_dotprod) names.append("neon_dotprod");
        if (cpu.neon) names.append("neon");
        return names;
      },
      py::arg("hwcap"), py::arg("hwcap2"));
  m.def("available_isas", [] {
    py::list names;
    for (const sam_rlx::KernelTable* table : sam_rlx::available_kernels()) {
      names.append(table->name);
    }
    return names;
  });
}
