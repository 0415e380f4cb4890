#pragma once

#include <pybind11/pybind11.h>

namespace sam_rlx {

// One function a group of the test extension.
void register_bench(pybind11::module_& m);
void register_checkpoint(pybind11::module_& m);
void register_detector_ops(pybind11::module_& m);
void register_kernel_bench(pybind11::module_& m);
void register_layers(pybind11::module_& m);
void register_masklets(pybind11::module_& m);
void register_masks(pybind11::module_& m);
void register_memory_rules(pybind11::module_& m);
void register_ops(pybind11::module_& m);
void register_quantized(pybind11::module_& m);
void register_sam2(pybind11::module_& m);
void register_sam2_image(pybind11::module_& m);
void register_sam3(pybind11::module_& m);
void register_trace(pybind11::module_& m);

}  // namespace sam_rlx
