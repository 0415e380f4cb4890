"""What `help`, Tab and an unknown name show: signatures, the names of modules, parts that load."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import pydoc
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import generator
from sam_rlx._internal.nearest import did_you_mean
from sam_rlx._internal.public import _Filled
from sam_rlx._internal.synonyms import also
from sam_rlx._internal.weights import safetensors
from sam_rlx._internal.weights.gguf import conversion as gguf_conversion
from sam_rlx.compat.segment_anything import modeling

ROOT = Path(__file__).parents[2]
SCREEN = 24  # lines


def _modules() -> list[ModuleType]:
    """Return the modules that choose what they show."""
    pytest.importorskip("anywidget", reason="needs the extra jupyter")
    found = [sam_rlx]
    for entry in pkgutil.walk_packages(sam_rlx.__path__, "sam_rlx."):
        if not re.search(r"\._|\.cli\b|\.pytest_plugin", entry.name):
            found.append(importlib.import_module(entry.name))
    return [module for module in found if "__dir__" in vars(module)]


def _names(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]


def _callables() -> Iterator[tuple[str, Any]]:
    """Yield every public function and class, and the public methods of classes, each once."""
    seen = set()
    for module in _modules():
        for name in _names(module):
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)) or value in seen:
                continue
            seen.add(value)
            yield f"{module.__name__}.{name}", value
            for part, member in vars(value).items() if inspect.isclass(value) else ():
                method = getattr(value, part) if isinstance(member, classmethod) else member
                if not part.startswith("_") and inspect.isroutine(method):
                    yield f"{module.__name__}.{name}.{part}", method


def _sentence(text: str) -> str:
    """Return the first sentence of a docstring in one line."""
    found = re.match(r".+?\.(?=\s|$)", " ".join(text.split()))
    assert found, text
    return found[0]


def _lines_to_the_sentence(value: Any, lines: list[str], width: int) -> int:
    """Return how many lines `help` prints on a terminal before the first sentence ends."""
    wanted = _sentence(inspect.getdoc(value) or "")
    shown = ""
    folded = [part for line in lines for part in (textwrap.wrap(line, width) or [""])]
    for number, line in enumerate(folded, 1):
        shown = " ".join(f"{shown} {line.strip(' |')}".split())
        if wanted in shown:
            return number
    raise AssertionError(f"{wanted} is not in {shown[:500]}")


def test_help_fits_a_screen() -> None:
    count = 0
    for name, value in _callables():
        text = pydoc.plain(pydoc.render_doc(value))
        assert "numpy._typing" not in text, name
        for width in (80, 120):
            assert _lines_to_the_sentence(value, text.splitlines()[:SCREEN], width) <= SCREEN, name
        count += 1
    assert count > 200


def test_signatures_read_as_they_are_written() -> None:
    shown = pydoc.plain(pydoc.render_doc(sam_rlx.ImagePredictor.predict))
    assert "point_coords: ArrayLike | None = None" in shown
    assert ") -> MaskPrediction" in shown
    assert "embedding: ArrayLike | Sequence[ArrayLike]" in str(
        inspect.signature(sam_rlx.ImagePredictor.set_image_embedding)
    )
    assert "output_mode: Literal['binary_mask'," in pydoc.render_doc(sam_rlx.MaskGenerator)
    names = list(inspect.signature(sam_rlx.MaskGenerator).parameters)
    assert names[:2] == ["model", "points_per_side"]
    assert len(names) == 20


def test_signatures_resolve() -> None:
    """Tools such as pydantic evaluate the hints in the module that they stand in."""
    for name, value in _callables():
        made = value.__init__ if inspect.isclass(value) else value
        if inspect.isfunction(made) and made.__module__.startswith("sam_rlx"):
            hints = typing.get_type_hints(made)
            assert not any(isinstance(hint, str) for hint in hints.values()), name


def test_a_long_signature_fills_its_lines() -> None:
    """`help` asks for it since Python 3.13."""
    if not hasattr(inspect.Signature, "format"):
        pytest.skip("this Python writes a signature in one line")
    long = inspect.signature(sam_rlx.MaskGenerator)
    assert isinstance(long, _Filled)
    text = long.format(max_width=70)
    assert text.count("\n") < 14
    assert max(map(len, text.splitlines())) <= 70


def test_a_class_of_a_user_has_its_own_signature() -> None:
    class Mine(sam_rlx.MaskGenerator):
        def __init__(self, model: sam_rlx.Model) -> None:
            super().__init__(model)

    assert list(inspect.signature(Mine).parameters) == ["model"]


def test_modules_show_public_names_only() -> None:
    parts = {"batch", "compat", "errors", "frames", "io", "parity", "viz", "widget"}
    assert set(_names(sam_rlx)) == {*sam_rlx.__all__, *parts}
    assert _names(sam_rlx.io) == sorted(sam_rlx.io.__all__)
    for module in _modules():
        names = _names(module)
        assert names or module.__name__.endswith((".sam2", ".utils")), module
        for name in names:
            value = getattr(module, name)
            home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
            assert home is None or home.startswith(("sam_rlx", "builtins", "typing", "")), name
            assert name in getattr(module, "__all__", names) or inspect.ismodule(value)
        assert "__file__" in dir(module)


@pytest.mark.source_tree
def test_every_public_module_chooses_what_it_shows() -> None:
    spec = importlib.util.spec_from_file_location(
        "names_public", ROOT / "docs" / "_site" / "public.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for annotations
    spec.loader.exec_module(module)
    public = set(module.entries()) - {"sam_rlx.pytest_plugin"}
    assert public <= {found.__name__ for found in _modules()}


def test_public_modules_load_at_first_use(run_python: Callable[..., Any]) -> None:
    code = """
import sys
import sam_rlx
late = [f"sam_rlx.{name}" for name in ("batch", "parity", "viz", "compat")]
assert not set(late) & set(sys.modules), sorted(sys.modules)
assert sam_rlx.viz.overlay and sam_rlx.batch.run and sam_rlx.parity.check and sam_rlx.io.read_image
assert sam_rlx.compat.segment_anything.SamPredictor and sam_rlx.compat.sam2
try:
    sam_rlx.vis
except AttributeError as error:
    print(error)
from sam_rlx import *
print(sorted(name for name in globals() if name.startswith(("load", "Image", "io"))))
"""
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "module 'sam_rlx' has no attribute 'vis'"
    assert second == "['ImagePredictor', 'load_model']"


@pytest.mark.parametrize(
    ("word", "end"),
    [
        ("--treads", ": did you mean --threads?"),
        ("--Point", ": did you mean --point?"),
        ("--keep_every", ": did you mean --keep-every?"),
        ("--colour", ""),
    ],
)
def test_the_nearest_name(word: str, end: str) -> None:
    assert did_you_mean(word, ["--threads", "--point", "--keep-every", "--model"]) == end


def _words(function: Callable[..., Any], name: str) -> set[str]:
    """Return the words that an argument takes, as its hint lists them."""
    found = set()
    parts = [typing.get_type_hints(function)[name]]
    while parts:
        part = parts.pop()
        found |= {part} if isinstance(part, str) else set()
        parts += typing.get_args(part)
    return found


def test_arguments_that_are_words_are_listed() -> None:
    info = sam_rlx.build_info()
    for function in (sam_rlx.load_model, sam_rlx.batch.run, sam_rlx.parity.check):
        assert _words(function, "precision") == set(info["precisions"])
    for function in (sam_rlx.load_model, sam_rlx.batch.run):
        assert set(info["compiled_isas"]) <= _words(function, "isa")
    assert _words(sam_rlx.convert, "names") == set(safetensors.NAMES)
    assert _words(sam_rlx.convert, "dtype") == set(gguf_conversion.DTYPES)
    assert _words(sam_rlx.MaskGenerator.__init__, "output_mode") == set(generator.OUTPUT_MODES)
    assert _words(sam_rlx.ImagePredictor.__init__, "resize") == {"float", "integer"}


IMAGE = np.zeros((6, 9, 3), np.uint8)


def _sam2() -> sam_rlx.Model:
    return sam_rlx.load_model("sam2-nano")


def test_objects_tell_model_and_image_in_one_line(model: sam_rlx.Model, tmp_path: Path) -> None:
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    assert repr(predictor) == f"<ImagePredictor sam {model.variant}, no image>"
    predictor.set_images([IMAGE, IMAGE])
    of_image = f"<ImagePredictor sam {model.variant}, image of 6 x 9, 2 images kept>"
    assert repr(predictor) == of_image
    found = predictor.predict(box=np.ones((2, 4)))
    assert repr(found.best()) == "<Best of 2 prompt sets>"
    assert "2 x 3 masks of 6 x 9" in repr(found)
    generator_ = sam_rlx.MaskGenerator(model, points_per_side=4, crop_n_layers=1)
    assert repr(generator_) == (
        f"<MaskGenerator sam {model.variant}, 4 x 4 points, crop layers: 1>"
    )
    assert repr(sam_rlx.Tokenizer()) == "<Tokenizer 32 ids a text, 49408 ids>"
    written = sam_rlx.convert(model.source, tmp_path / "a.safetensors")
    assert repr(written).startswith(f"<Written {tmp_path / 'a.safetensors'}, ")
    assert "\n" not in repr(written)
    raw = sam_rlx.RawDetections(
        *(np.zeros(3, np.float32), np.zeros((3, 4), np.float32), -1.5),
        *(np.zeros((3, 8, 8), np.float32), np.zeros((8, 8), np.float32)),
    )
    assert repr(raw) == "<RawDetections 3 queries, masks of 8 x 8, presence -1.50>"


def test_videos_and_widgets_tell_what_they_show() -> None:
    widget = pytest.importorskip("sam_rlx.widget", reason="needs the extra jupyter")
    model = _sam2()
    video = sam_rlx.VideoPredictor(model, [IMAGE, IMAGE])
    assert repr(video) == "<VideoPredictor sam2 sam2-nano, 2 frames, 0 objects>"
    assert repr(sam_rlx.VideoPredictor(model)).endswith("0 frames, 0 objects>")
    shown = widget.SegmentWidget(model, [IMAGE])
    assert repr(shown) == "<SegmentWidget sam2 sam2-nano, image 0 of 6 x 9, 0 objects>"
    shown.close()
    clip = widget.VideoWidget(model, [IMAGE, IMAGE])
    assert repr(clip) == "<VideoWidget sam2 sam2-nano, 2 frames, 0 objects>"
    clip.close()


def test_drop_in_classes_tell_their_model(model: sam_rlx.Model) -> None:
    module = sam_rlx.compat.segment_anything
    sam = modeling.Sam(model)
    assert repr(sam) == f"<Sam sam {model.variant}>"
    assert repr(module.SamPredictor(sam)) == f"<SamPredictor sam {model.variant}>"
    assert repr(module.SamAutomaticMaskGenerator(sam)).startswith("<SamAutomaticMaskGenerator sam ")


def test_other_names_of_arguments() -> None:
    @also(colour="color")
    def paint(color: str, width: int = 1) -> tuple[str, int]:
        """Paint."""
        return color, width

    assert paint("red") == paint(color="red") == paint(colour="red") == ("red", 1)
    assert str(inspect.signature(paint)) == "(color: 'str', width: 'int' = 1) -> 'tuple[str, int]'"
    with pytest.raises(sam_rlx.InvalidArgumentError, match="color: expected it once, found it as"):
        paint(color="red", colour="blue")


def test_the_same_thing_has_the_same_name(model: sam_rlx.Model) -> None:
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    predictor.set_image(IMAGE)
    box = [1, 1, 5, 4]
    one, other = predictor.predict(box=box), predictor.predict(boxes=box)
    assert one.low_res_masks.tobytes() == other.low_res_masks.tobytes()
    assert model.image_size == model.img_size
    result = sam_rlx.batch.BatchResult(out=Path("a"), parts=[], items=0)
    assert result.output == result.out == Path("a")
    drawn = [sam_rlx.viz.overlay(IMAGE, [], **{name: box}) for name in ("box", "boxes")]
    assert drawn[0].tobytes() == drawn[1].tobytes()


@pytest.mark.source_tree
def test_the_page_lists_every_other_name() -> None:
    page = (ROOT / "docs" / "coming_from.md").read_text()
    rows = {tuple(re.findall(r"`(.+?)`", line)[:2]) for line in page.splitlines() if "|" in line}
    count = 0
    for _, value in _callables():
        for made in (value, vars(value).get("__init__") if inspect.isclass(value) else None):
            names = getattr(made, "__synonyms__", {})
            assert {(name, other) for other, name in names.items()} <= rows
            count += len(names)
    assert count > 15
