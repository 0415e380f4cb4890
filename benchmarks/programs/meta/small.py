"""The packaged models under the names of released ones, on Meta's side and on ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from shared import OURS, WEIGHTS

SAM, SAM2, SAM3 = "sam-nano.pth", "sam2-nano.pt", "sam3-nano.pt"


def sam(*names: str) -> None:
    """Let entries of ``sam_model_registry`` build the network of sam-nano, on either side."""
    import segment_anything

    for name in names:
        segment_anything.sam_model_registry[name] = _our_sam if OURS else _meta_sam


def _our_sam(checkpoint: Any = None) -> Any:
    from sam_rlx import load_model
    from sam_rlx.compat.common.state_dicts import EmptyModel
    from sam_rlx.compat.segment_anything.modeling import Sam

    return Sam(EmptyModel("sam", None, 384) if checkpoint is None else load_model(checkpoint))


def _meta_sam(checkpoint: Any = None) -> Any:
    return _meta_network("sam", checkpoint, SAM)


def _meta_network(family: str, checkpoint: Any, default: str) -> Any:
    """Return Meta's network, from its package, with the weights of a file."""
    from sam_rlx import load_model
    from sam_rlx.apps.parity import networks, sam3_network

    source = str(checkpoint or WEIGHTS / default)
    build = {"sam": networks.sam, "sam2": networks.sam2, "sam3": sam3_network.sam3}[family]
    return build(load_model(source), networks.read_weights(source))[1]


def sam2() -> None:
    """Let the builders of ``sam2.build_sam`` build the network of sam2-nano for any config."""
    import sam2.build_sam as module

    if OURS:
        module.build_sam2 = _without_config(module.build_sam2)
        module.build_sam2_video_predictor = _without_config(module.build_sam2_video_predictor)
        return
    from sam_rlx.apps.parity import packages

    packages.sam2()
    from sam2.sam2_image_predictor import SAM2ImagePredictor
    from sam2.utils import misc

    module.build_sam2 = module.build_sam2_video_predictor = _meta_sam2
    misc.get_connected_components = _components
    begin = SAM2ImagePredictor.__init__

    def with_sizes(self: Any, sam_model: Any, *rest: Any, **named: Any) -> None:
        begin(self, sam_model, *rest, **named)
        grid = sam_model.image_size // 16  # upstream writes down the sizes of the maps at 1024
        self._bb_feat_sizes = [(count * grid, count * grid) for count in (4, 2, 1)]

    SAM2ImagePredictor.__init__ = with_sizes


def _without_config(build: Any) -> Any:
    """Return a builder that takes what the file says for what its config says."""

    def built(config_file: Any = None, *rest: Any, **named: Any) -> Any:
        return build(None, *rest, **named)

    return built


def _meta_sam2(
    config_file: Any,
    ckpt_path: Any = None,
    device: Any = "cpu",
    mode: str = "eval",
    hydra_overrides_extra: Any = (),
    apply_postprocessing: bool = True,
    **_named: Any,
) -> Any:
    """Do what Meta's builders do with the network that they instantiate of a config."""
    network = _meta_network("sam2", ckpt_path, SAM2)
    network.fill_hole_area = 8 if apply_postprocessing else 0
    network.binarize_mask_from_pts_for_mem_enc = apply_postprocessing
    network.sam_mask_decoder.dynamic_multimask_via_stability = apply_postprocessing
    return network


def _components(mask: Any) -> tuple[Any, Any]:
    """Do what Meta's CUDA kernel does: labels of 8-connected positions, and their areas."""
    import torch
    from scipy import ndimage

    labels, areas = torch.zeros(mask.shape, dtype=torch.int32), torch.zeros(mask.shape)
    for index, plane in enumerate(mask[:, 0].cpu().numpy()):
        found, count = ndimage.label(plane, structure=np.ones((3, 3)))
        sizes = np.bincount(found.ravel(), minlength=count + 1)
        labels[index, 0] = torch.from_numpy(found)
        areas[index, 0] = torch.from_numpy(np.where(found > 0, sizes[found], 0))
    return labels, areas


def sam3() -> None:
    """Let Meta's builder of SAM 3 build the network of sam3-nano. Ours takes its file as it is."""
    if OURS:
        return
    from sam_rlx import load_model
    from sam_rlx.apps.parity import packages

    packages.sam3()
    import sam3 as package
    import sam3.model_builder as module
    from sam3.model.sam3_image_processor import Sam3Processor

    package.build_sam3_image_model = module.build_sam3_image_model = _meta_sam3
    begin, side = Sam3Processor.__init__, load_model(WEIGHTS / SAM3).img_size

    def with_side(self: Any, model: Any, resolution: int = side, *rest: Any, **named: Any) -> None:
        begin(self, model, resolution, *rest, **named)

    Sam3Processor.__init__ = with_side


def _meta_sam3(
    bpe_path: Any = None,
    device: Any = "cpu",
    eval_mode: bool = True,
    checkpoint_path: Any = None,
    load_from_HF: bool = True,
    enable_segmentation: bool = True,
    enable_inst_interactivity: bool = False,
    compile: bool = False,
) -> Any:
    """Do what Meta's builder does."""
    network = _meta_network("sam3", checkpoint_path, SAM3)
    if not enable_inst_interactivity:
        network.inst_interactive_predictor = None
    return network
