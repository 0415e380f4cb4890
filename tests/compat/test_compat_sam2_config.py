"""YAML configs and Hydra's overrides change what they change upstream."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.sam2 import config_file, config_values
from sam_rlx.compat.sam2.build_sam import build_sam2, build_sam2_video_predictor
from support import tiny, tiny_sam2
from support.cases import quick

pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
upstream_video = pytest.importorskip("support.upstream_video")
judged_video = pytest.importorskip("support.judged_video")
yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.parity

COUNT, HW = 6, (72, 96)
# What every release has, where upstream's constructor has something else.
RELEASED = upstream_sam2.switches_of(tiny.Sam2HeadsConfig(), {})
del RELEASED["binarize_mask_from_pts_for_mem_enc"], RELEASED["sam_mask_decoder_extra_args"]


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1.0)
    return weights


@pytest.fixture(scope="module")
def checkpoint(weights: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "tiny.safetensors"
    return tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("frames")
    for t, frame in enumerate(upstream_video.clip(COUNT, HW)):
        Image.fromarray(frame).save(path / f"{t}.jpg", quality=95)
    return str(path)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | None = None, **changes: Any) -> Path:
        fields = {"_target_": "sam2.modeling.sam2_base.SAM2Base", **RELEASED, **changes}
        fields["image_size"] = tiny_sam2.TINY.image_size
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({"model": fields}) if text is None else text)
        return path

    return write


def track(predictor: Any, state: Any) -> list[Any]:
    points, labels = np.array([[20, 28]], np.float32), np.array([1], np.int32)
    predictor.add_new_points_or_box(state, 0, 1, points=points, labels=labels)
    return list(predictor.propagate_in_video(state))


def hold(right: Any, ours: Any, folder: str) -> None:
    """Hold ours to upstream's predictor."""
    judged_video.Judged(right, ours, folder).call(track)


def logits(predictor: Any, folder: str) -> np.ndarray:
    found = track(predictor, predictor.init_state(folder))
    return np.stack([np.asarray(masks) for _, _, masks in found])


CHANGES: dict[str, dict[str, Any]] = {
    "memory constants": {"sigmoid_scale_for_mem_enc": 5.0, "sigmoid_bias_for_mem_enc": -1.0},
    "fewer pointers": {"max_obj_ptrs_in_encoder": 3},
    "stride": {"memory_temporal_stride_for_eval": 3},
    "never several masks": {"multimask_output_for_tracking": False, "multimask_max_pt_num": 0},
    "absolute distances": {"use_signed_tpos_enc_to_obj_ptrs": False},
}


@pytest.mark.parametrize(
    ("name", "way"), quick(itertools.product(CHANGES, ("yaml", "overrides")), 0, 2, 4, 5, 7, 8)
)
def test_values_are_used_as_upstream_does(
    weights: Any, checkpoint: Path, folder: str, write: Any, name: str, way: str
) -> None:
    changes = CHANGES[name]
    if way == "yaml":
        ours = build_sam2_video_predictor(write(**changes), checkpoint)
    else:
        overrides = [f"++model.{key}={str(value).lower()}" for key, value in changes.items()]
        ours = build_sam2_video_predictor(None, checkpoint, hydra_overrides_extra=overrides)
    hold(upstream_video.build(weights, **changes), ours, folder)


def test_the_constants_change_the_masks(checkpoint: Path, folder: str, write: Any) -> None:
    plain = logits(build_sam2_video_predictor(write(), checkpoint), folder)
    without = logits(build_sam2_video_predictor(None, checkpoint), folder)
    np.testing.assert_array_equal(plain, without)
    changed = write(**CHANGES["memory constants"])
    other = logits(build_sam2_video_predictor(changed, checkpoint), folder)
    # More than the rounding of memories to bfloat16, 2^-9 of them, can do.
    assert np.abs(other - plain).max() > 2**-7 * np.abs(plain).max()


def test_plain_heads_equal_upstream(weights: Any, folder: str, tmp_path: Path) -> None:
    """One linear layer for object scores and pointers, as upstream's switches make them."""
    plain = {}
    for name, value in weights.items():
        if not name.startswith(("obj_ptr_proj.", "sam_mask_decoder.pred_obj_score_head.")):
            plain[name] = value
        elif ".layers.2." in name:
            plain[name.replace(".layers.2.", ".")] = value
    switches = {"pred_obj_scores_mlp": False, "use_mlp_for_obj_ptr_proj": False}
    path = tiny_sam2.save_safetensors(tmp_path / "x.safetensors", tiny_sam2.TINY, plain)
    ours = build_sam2_video_predictor(None, path)
    assert ours.model.config["mask_decoder"]["pred_obj_scores_mlp"] is False
    assert ours.model.config["base"]["use_mlp_for_obj_ptr_proj"] is False
    hold(upstream_video.build(plain, **switches), ours, folder)


def test_another_image_size(checkpoint: Path) -> None:
    side = tiny_sam2.TINY.image_size
    for size in (side, side // 2):
        ours = build_sam2(None, checkpoint, hydra_overrides_extra=[f"++model.image_size={size}"])
        assert ours.image_size == size
    with pytest.raises(sam_rlx.InvalidArgumentError, match="image_size"):
        build_sam2(None, checkpoint, hydra_overrides_extra=["++model.image_size=33"])


def test_predictor_arguments(checkpoint: Path, write: Any) -> None:
    path = write(fill_hole_area=3, non_overlap_masks=True)
    ours = build_sam2_video_predictor(path, checkpoint, apply_postprocessing=False)
    assert (ours.fill_hole_area, ours.non_overlap_masks) == (3, True)
    # Upstream's own overrides come last.
    ours = build_sam2_video_predictor(
        path, checkpoint, hydra_overrides_extra=["++model.fill_hole_area=5"]
    )
    assert (ours.fill_hole_area, ours.non_overlap_masks) == (5, True)


def test_without_postprocessing(checkpoint: Path) -> None:
    config = build_sam2(None, checkpoint, apply_postprocessing=False).model.config
    assert config["mask_decoder"]["dynamic_multimask_via_stability"] is False
    config = build_sam2_video_predictor(None, checkpoint, apply_postprocessing=False).model.config
    assert config["base"]["binarize_mask_from_pts_for_mem_enc"] is False


UPSTREAMS = ["sam2/sam2_hiera_t", "sam2/sam2_hiera_s", "sam2/sam2_hiera_b+", "sam2/sam2_hiera_l"]
UPSTREAMS += [f"sam2.1/{name[5:].replace('sam2_', 'sam2.1_')}" for name in UPSTREAMS]
OVERRIDES = ["++model.image_size=512", "model.num_maskmem=5", "+model.fill_hole_area=4"]
OVERRIDES += ["++model.image_encoder.trunk.stages=[1,2,3]", "++model.non_overlap_masks=TRUE"]


@pytest.mark.parametrize("name", UPSTREAMS)
def test_upstreams_files_are_read_as_upstream_reads_them(name: str) -> None:
    hydra = pytest.importorskip("hydra")
    omegaconf = pytest.importorskip("omegaconf")
    import sam2

    folder = Path(sam2.__path__[0]) / "configs"
    hydra.core.global_hydra.GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(folder), version_base="1.2"):
        right = hydra.compose(name, overrides=OVERRIDES)
    omegaconf.OmegaConf.resolve(right)
    expected = dict(config_values.flatten(omegaconf.OmegaConf.to_container(right.model)))
    found = config_values.read_yaml(folder / f"{name}.yaml")
    found |= dict(map(config_values.parse_override, OVERRIDES))
    assert found == expected
    settings = config_file.read_settings(folder / f"{name}.yaml", postprocessing=False)
    assert settings.image_size == 1024
    stages = {"t": [1, 2, 7, 2], "s": [1, 2, 11, 2], "b+": [2, 3, 16, 3], "l": [2, 6, 36, 4]}
    assert settings.told["trunk.stages"][1] == stages[name.rpartition("_")[2]]


@pytest.mark.parametrize("name", ["x.yaml", "configs/sam2.1/sam2.1_hiera_x.yaml", "", "sam2"])
def test_other_names_are_refused(checkpoint: Path, name: str) -> None:
    for build in (build_sam2, build_sam2_video_predictor):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="config_file: expected a config"):
            build(name, checkpoint)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"unknown": 1}, sam_rlx.InvalidArgumentError, r"model\.unknown: expected a field"),
        ({"soft_no_obj_ptr": True}, sam_rlx.UnsupportedError, r"soft_no_obj_ptr: expected False"),
        (
            {"non_overlap_masks": 2},
            sam_rlx.InvalidArgumentError,
            "non_overlap_masks: expected bool",
        ),
        ({"num_maskmem": 5}, sam_rlx.CheckpointError, "expected num_maskmem 5 .*found 7"),
        ({"sigmoid_bias_for_mem_enc": "a"}, sam_rlx.CheckpointError, "sigmoid_bias_for_mem_enc"),
        ({"max_obj_ptrs_in_encoder": -5}, sam_rlx.CheckpointError, "max_obj_ptrs_in_encoder"),
        ({"_target_": "timm.Net"}, sam_rlx.UnsupportedError, "_target_: expected a class of sam2"),
        ({"a": "${b.c}"}, sam_rlx.InvalidArgumentError, r"expected a value for \$\{b\.c\}"),
    ],
)
def test_wrong_values_are_refused(
    checkpoint: Path, write: Any, changes: dict[str, Any], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        build_sam2_video_predictor(write(**changes), checkpoint)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "expected YAML"), ("- 1", "found list"), ("a: 1", r"under model, found \['a'\]")],
)
def test_files_that_are_no_configs_are_refused(
    checkpoint: Path, write: Any, text: str, message: str
) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match=message):
        build_sam2(write(text), checkpoint)


@pytest.mark.parametrize("override", ["model.image_size", "++trainer.x=1", "x", "~model.a"])
def test_other_overrides_are_refused(checkpoint: Path, override: str) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match="hydra_overrides_extra: expected"):
        build_sam2(None, checkpoint, hydra_overrides_extra=[override])


def _nested(first: str, each: str, count: int, levels: int) -> str:
    """Return a config whose aliases refer to each other."""
    lines = ["model:", f"  a0: &a0 {first}"]
    for level in range(1, levels):
        inner = ", ".join(each.format(k=k, of=f"*a{level - 1}") for k in range(count))
        brackets = "{%s}" if ":" in each or "<<" in each else "[%s]"
        lines.append(f"  a{level}: &a{level} {brackets % inner}")
    return "\n".join(lines)


def _reference(number: int) -> str:
    return f"'${{model.a{number}}}', "


HOSTILE = {
    "lists": _nested("[1, 1]", "{of}", 9, 12),
    "dicts": _nested("{x: 1}", "k{k}: {of}", 9, 12),
    "merges": _nested("{x: 1}", "<<: {of}", 1, 12).replace(
        "<<: *a5", "<<: [" + "*a5, " * 9000 + "]"
    ),
    "references": "\n".join(
        ["model:", *(f"  a{k}: [{_reference(k + 1) * 9}]" for k in range(12)), "  a12: 1"]
    ),
    "a circle": "model: &m\n  a: *m",
    "a circle of lists": "model:\n  a: &a [[*a]]",
    "deep": "model:\n  a: " + "[" * 20_000,
    "deep blocks": "model:\n  a:\n    " + "- " * 20_000 + "1",
    "large": "model:\n  a: " + "x" * 70_000,
    "digits": "model:\n  a: " + "9" * 5000,
    "digits in a text": "model:\n  a: '" + "9" * 5000 + "'",
    "a date": "model:\n  a: 2026-02-31",
    "an integer": "model:\n  a: !!int 'x'",
    "a float": "model:\n  a: !!float 'x'",
    "a time": "model:\n  a: !!timestamp 'x'",
    "a boolean": "model:\n  a: !!bool 'x'",
    "pairs": "model:\n  a: !!pairs [1]",
    "a key": "model:\n  ? [1]\n  : 2",
    "a class": "model:\n  a: !!python/object/apply:os.getcwd []",
    "bytes": "model:\n  a: !!binary '\xe4'",
    "nothing": "",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_configs_of_strangers_are_refused_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(HOSTILE[name], encoding="utf-8")
    with pytest.raises(sam_rlx.InvalidArgumentError):
        config_file.read_settings(path)


def test_an_alias_is_expanded(write: Any) -> None:
    text = "a: &size [7, 7]\nmodel:\n  x: *size\n  y:\n    <<: {z: 1e-6}\n    b: ${a}"
    found = config_values.read_yaml(Path(write(text)))
    assert found == {"x": [7, 7], "y.z": 1e-6, "y.b": [7, 7]}


@pytest.mark.parametrize(
    "value", ["9" * 5000, "[" * 5000, "[" + "9" * 5000 + "]", "1e" + "9" * 400]
)
def test_overrides_without_bounds_are_refused(value: str) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError) as caught:
        config_file.read_settings(None, [f"++model.image_size={value}"])
    assert len(str(caught.value)) < 400
