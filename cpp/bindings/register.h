#pragma once

#include <pybind11/pybind11.h>

namespace sam_rlx {

// One function a class or group of functions of the public extension.
void register_checkpoint(pybind11::module_& m);
void register_model(pybind11::module_& m);
void register_named_tensors(pybind11::module_& m);
void register_options(pybind11::module_& m);
void register_image_predictor(pybind11::module_& m);
void register_mask_generator(pybind11::module_& m);
void register_point_masks(pybind11::module_& m);
void register_masks_api(pybind11::module_& m);
void register_tiles(pybind11::module_& m);
void register_overlay(pybind11::module_& m);
void register_resize(pybind11::module_& m);
void register_prompt_checks(pybind11::module_& m);
void register_exclusive(pybind11::module_& m);
void register_stepped_objects(pybind11::module_& m);
void register_video_session(pybind11::module_& m);
void register_concept_network(pybind11::module_& m);
void register_concept_predictor(pybind11::module_& m);
void register_tensor_predictor(pybind11::module_& m);
void register_sam_embeddings(pybind11::module_& m);
void register_tokenizer(pybind11::module_& m);

}  // namespace sam_rlx
