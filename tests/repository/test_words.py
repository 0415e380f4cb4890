"""The field's words: one name for a thing, in identifiers and comments alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
KINDS = {".py", ".pyi", ".cpp", ".h", ".inl", ".md", ".toml", ".ipynb"}
FOLDERS = ("benchmarks", "cpp", "docs", "notebooks", "packages", "python", "tests", "training")
# Word that is not used, and the one that is. Parts of identifiers count.
WORDS = {
    "pictures?": "image",
    "phrases?": "text",
    "spots?": "position",
    "musters?": "barrier",
    "quantis(e|es|ed|ing|ation)": "quantize",
    "(?<!in[_ -])places?": "position, where; instead of; replace",
    "in place of": "instead of",
    "no numbers?|numbers? that (is|are) none|that (is|are) none": "NaN, not a number",
    "near rows?": "l2_rows",
    "model files?|params? blob": "checkpoint, weights",
    "latents?": "image_embeddings",
    "priors?": "mask_input",
    "pts": "point_coords",
    "bboxes": "boxes",
    "arch": "family, variant",
    "prompt_vec|segs|img_sz|dim1|head2": "the name in the code's tables",
}
# Names of others: Linux's, OpenMP's, keys of GGUF, PyAV's time stamps, options of SAM 2, of
# transformers and of Ultralytics, an argument of driverflow, a key of YouTube-VIS.
FOREIGN = re.compile(
    r"OMP_PLACES|omp_get_(num_places|place_\w+)"
    r"|(general|sam3)\.arch|--arch=|SYS_arch_prctl|ARCH_REQ_XCOMP_PERM"
    r"|\bphrases=|output_bboxes_masks?|\.pts\b|\bbboxes=|\"bboxes\""
    r"|binarize_mask_from_pts(_for_mem_enc)?|is_mask_from_pts"
)
LATENTS = ("latent", "latents")
WRONG = re.compile(rf"(?<![a-z])({'|'.join(WORDS)})(?![a-z])", re.IGNORECASE)
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Limits begin with kMax or MAX.
WRONG_LIMIT = re.compile(r"\b(kMost[A-Z]|_?MOST_)\w*")


def _files() -> list[Path]:
    # What builds and editors leave behind is not ours.
    left = {"build", "runs", "commands", "project", "reference"}
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in KINDS
        and not any(
            part in left or part.startswith(".") or part.endswith(".egg-info")
            for part in path.relative_to(ROOT).parts
        )
    ]


def _wrong_words(line: str) -> list[str]:
    line = FOREIGN.sub("", line)
    found = [match[0] for match in WRONG_LIMIT.finditer(line)]
    return found + [match[0] for match in WRONG.finditer(CAMEL.sub("_", line))]


def test_words_of_the_glossary() -> None:
    wrong = []
    for path in _files():
        name = path.relative_to(ROOT).as_posix()
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        # What EdgeTAM's perceiver learns has no other name.
        fine = LATENTS if "perceiver" in text.lower() else ()
        # An argument of Ultralytics.
        fine = (*fine, "bboxes") if "ultralytics" in name else fine
        for number, line in enumerate(text.splitlines(), 1):
            found = [word for word in _wrong_words(line) if word.lower() not in fine]
            wrong += [f"{name}:{number}: {word}" for word in found]
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "class VideoPhrases {",
        "int kMostRows = 1;",
        "num_phrases",
        "a picture of it",
        "MOST_LOST = 3",
        "takes the place of",
        "one in place of another",
        "a point that is none",
        "pts = []",
    ],
)
def test_a_wrong_word_is_found(line: str) -> None:
    assert _wrong_words(line)


@pytest.mark.parametrize(
    "line",
    [
        *("most of it", "paraphrase", "kMaxRows", "spotless", "segments"),
        *("norm_in_place", "in place", "kKeysInPlace", "frame.pts", "replaces"),
    ],
)
def test_other_words_are_not(line: str) -> None:
    assert not _wrong_words(line)
