"""Options of predictors: described once, in the core."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx._internal import options as _options
from sam_rlx.apps.cli import everything, segment, track
from sam_rlx.compat.sam2.automatic_mask_generator import SAM2AutomaticMaskGenerator
from sam_rlx.compat.sam3.model.sam3_image_processor import Sam3Processor
from sam_rlx.compat.segment_anything import SamAutomaticMaskGenerator

FAMILIES = sam_rlx.build_info()["families"]
# The names of `VideoPredictor` where they are not upstream's.
VIDEO_NAMES = {
    "keep_corrections": "add_all_frames_to_correct_as_cond",
    "memory_selection": "use_memory_selection",
}
# None in a signature: the default differs by family or model.
BY_FAMILY = {
    "pred_iou_thresh": {"sam": 0.88, "sam2": 0.8, "sam3": 0.8},
    "stability_score_thresh": {"sam": 0.95, "sam2": 0.95, "sam3": 0.95},
    "fill_hole_area": {"sam": 0, "sam2": 8, "sam3": 0},
    "use_memory_selection": {"sam": False, "sam2": False, "sam3": True},
    "memory_rule": {"sam": "", "sam2": "", "sam3": ""},  # upstream's own
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("kind", "predictor", "names"),
    [
        ("image", sam_rlx.ImagePredictor, {}),
        ("image", sam_rlx.ConceptPredictor, {}),
        ("concept", sam_rlx.ConceptPredictor.predict, {}),
        ("generator", sam_rlx.MaskGenerator, {}),
        ("video", sam_rlx.VideoPredictor, VIDEO_NAMES),
    ],
)
def test_signatures_have_the_described_defaults(
    kind: Any, predictor: Callable[..., Any], names: dict[str, str], family: str
) -> None:
    options = _options.describe(kind, family)
    seen = set()
    for name, parameter in inspect.signature(predictor).parameters.items():
        option = names.get(name, name)
        if option not in options:
            continue
        seen.add(option)
        expected = BY_FAMILY[option][family] if parameter.default is None else parameter.default
        assert options[option]["default"] == expected
        assert type(options[option]["default"]) is type(expected)
    assert set(options) - seen <= {"bfloat16_memory", "streaming"}  # not for callers


@pytest.mark.parametrize(
    ("kind", "family", "drop_in", "names"),
    [
        ("generator", "sam", SamAutomaticMaskGenerator, {}),
        ("generator", "sam2", SAM2AutomaticMaskGenerator, {}),
        ("concept", "sam3", Sam3Processor, {"confidence_threshold": "threshold"}),
    ],
)
def test_drop_ins_have_the_described_defaults(
    kind: Any, family: str, drop_in: type, names: dict[str, str]
) -> None:
    options = _options.describe(kind, family)
    parameters = inspect.signature(drop_in).parameters.items()
    found = {names.get(name, name): parameter.default for name, parameter in parameters}
    for name, option in options.items():
        assert found[name] == option["default"], name


def test_defaults_are_in_their_ranges_and_have_help() -> None:
    for kind in ("image", "concept", "generator", "video", "text"):
        for option in _options.describe(kind, "sam3").values():  # type: ignore[arg-type]
            default = option["default"]
            if not isinstance(default, (bool, str)):
                assert option["min"] <= default <= option["max"]
            assert isinstance(option["help"], str)


def test_defaults_of_texts_are_those_of_upstream() -> None:
    found = {name: option["default"] for name, option in _options.describe("text", "sam3").items()}
    expected = {
        "score_threshold_detection": 0.5,
        "det_nms_thresh": 0.1,
        "assoc_iou_thresh": 0.1,
        "trk_assoc_iou_thresh": 0.5,
        "new_det_thresh": 0.7,
        "hotstart_delay": 15,
        "hotstart_unmatch_thresh": 8,
        "hotstart_dup_thresh": 8,
        "suppress_overlapping_based_on_recent_occlusion_threshold": 0.7,
        "fill_hole_area": 16,
        "max_num_objects": 10000,
        "recondition_every_nth_frame": 16,
    }
    assert expected.items() <= found.items()


def test_every_option_of_upstreams_video_model_is_known() -> None:
    upstream = pytest.importorskip("support.upstream_sam3", reason="needs sam3").sam3
    kinds = upstream.video_inference.Sam3VideoInferenceWithInstanceInteractivity.__mro__
    asked = {
        name
        for kind in kinds
        if kind.__module__.startswith("sam3.")
        for name in inspect.signature(kind.__init__).parameters
    } - {"self", "args", "kwargs", "detector", "tracker"}
    told = set(_options.describe("text", "sam3"))
    # Upstream's constructor alone, or refused with a reason: see the tests of both.
    told |= {"image_size", "image_mean", "image_std", "compile_model"}
    told |= {*LEFT_OUT, "masklet_confirmation_consecutive_det_thresh"}
    assert len(asked) > 20
    assert asked <= told


def test_the_command_line_tells_them(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    everything.add_parser(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["everything", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    options = _options.describe("generator", "sam")
    for name in ("points_per_side", "pred_iou_thresh", "min_mask_region_area"):
        option = options[name]
        assert f"--{name.replace('_', '-')} N {option['help']} ({option['default']})" in text


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            segment,
            "--threshold SCORE {concept[threshold][help]} (default {concept[threshold][default]})",
        ),
        (
            track,
            "(default: {text[new_det_thresh][default]} for new objects, "
            "{text[score_threshold_detection][default]} to confirm them)",
        ),
    ],
)
def test_commands_of_texts_tell_them(
    command: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args([command.__name__.rpartition(".")[2], "--help"])
    text = " ".join(capsys.readouterr().out.split())
    kinds: Any = ("concept", "text")
    assert told.format(**{kind: _options.describe(kind, "sam3") for kind in kinds}) in text


def test_integers_have_a_largest_value() -> None:
    option = {"default": 1, "min": 0.0, "max": 8.0, "help": ""}
    assert _options._as_option("layers", option, 8) == 8
    for value in (-1, 9, 2.0, True):
        with pytest.raises(
            sam_rlx.InvalidArgumentError, match="layers: expected an int from 0 to 8"
        ):
            _options._as_option("layers", option, value)


LEFT_OUT = {
    "o2o_matching_masklets_enable": "a finding confirms every object that it overlaps",
    "masklet_confirmation_enable": "an object is shown from its first frame on",
    "use_prev_mem_frame": "a click sees its own frame alone",
    "use_stateless_refinement": "a click corrects the object that was found",
}


@pytest.mark.parametrize(("name", "instead"), LEFT_OUT.items())
def test_rules_that_are_left_out_are_refused_with_what_holds(name: str, instead: str) -> None:
    model = sam_rlx.load_model("sam3-nano")
    frames = np.zeros((1, 8, 8, 3), np.uint8)
    refused = sam_rlx.VideoPredictor(model, frames=frames, text_options={name: True})
    with pytest.raises(
        sam_rlx.UnsupportedError,
        match=f"text_options.{name}: expected False, found True: {instead}",
    ):
        refused.add_text("a cup")
    off = {name: False, "masklet_confirmation_consecutive_det_thresh": 3}
    assert sam_rlx.VideoPredictor(model, frames=frames, text_options=off).add_text("a cup")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"hotstart_delay": -1}, "hotstart_delay: expected at least 0, found -1"),
        ({"new_det_thresh": float("nan")}, "new_det_thresh: expected a finite number, found nan"),
        ({"max_num_objects": "many"}, "max_num_objects: expected at least -1, found 'many'"),
        ({"colour": 1}, "expected an option of upstream's video model, found colour"),
    ],
)
def test_wrong_options_of_texts_are_refused(options: dict[str, Any], text: str) -> None:
    frame = [[[0, 0, 0]] * 8] * 8
    session = sam_rlx.VideoPredictor(
        sam_rlx.load_model("sam3-nano"), frames=[frame], text_options=options
    )
    with pytest.raises(sam_rlx.InvalidArgumentError, match=text):
        session.add_text("a cup")
