"""Released variants are named once: errors, commands, drop-ins and docs read the rows."""

from itertools import groupby
from pathlib import Path

import pytest
import sam_rlx
from sam_rlx import _core
from sam_rlx.compat.sam2.config_file import read_settings
from sam_rlx.compat.segment_anything import sam_model_registry

ROWS = _core.releases()
DOCS = Path(__file__).parents[2] / "docs" / "checkpoints.md"


def rows_of(family):
    return [row for row in ROWS if row["family"] == family]


def variants_of(family):
    return list(dict.fromkeys(row["variant"] for row in rows_of(family)))


def test_rows_tell_files_apart():
    assert {row["family"] for row in ROWS} == set(sam_rlx.build_info()["families"])
    assert len({row["file"] for row in ROWS}) == len(ROWS)
    for _, rows in groupby(ROWS, key=lambda row: (row["family"], row["version"], row["source"])):
        sizes = [row["bytes"] for row in rows]
        assert sizes == sorted(sizes)


def test_sizes_of_sam2_are_those_of_its_files(testing):
    """Meta's files hold float32 numbers and little else."""
    for row in rows_of("sam2"):
        numbers = 0
        for _, shape in testing.sam2_image_parameters(row["variant"]):
            count = 1
            for side in shape:
                count *= side
            numbers += count
        rest = row["bytes"] - 4 * numbers
        # Decoder and memory have 12 million; EdgeTAM's memory attention has half as many layers.
        expected = 9e6 if row["variant"] == "edgetam" else 12e6
        assert 4 * (expected - 1e6) < rest < 4 * (expected + 1e6)


@pytest.mark.parametrize("family", ["sam", "sam2", "sam3"])
def test_a_variant_that_there_is_not(family):
    names = variants_of(family)
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    with pytest.raises(sam_rlx.UnsupportedError) as caught:
        sam_rlx.load_model({"sam": "sam-nano"}.get(family, f"{family}-nano"), variant="vit_x")
    assert str(caught.value) == f"variant: expected {listed}, found vit_x"


def test_the_drop_ins_have_all_of_them():
    plain = {name for name in variants_of("sam") if not name.startswith("hq_")}
    assert plain == set(sam_model_registry) - {"default", "nano"}
    for name in plain:
        builder = sam_model_registry[name]
        assert builder.__name__ == f"build_sam_{name}"
        assert name in builder.__doc__
    for row in rows_of("sam2"):
        name = row["variant"]
        if name != "edgetam":
            version = f"sam{row['version'].removesuffix('.0')}"
            name = f"{version}/{version}_{name}"
        settings = read_settings(f"configs/{name}.yaml")
        assert (settings.variant, settings.version) == (row["variant"], row["version"])


def test_settings_are_named_as_in_the_config():
    model = sam_rlx.load_model("sam2-nano")
    names = _core.settings("sam2")
    assert len(names) == len(set(names)) > 10
    for name in names:
        found = model.config
        for part in name.split("."):
            found = found[part]
    assert _core.settings("sam") == []


@pytest.mark.source_tree
def test_the_docs_name_them():
    page = DOCS.read_text(encoding="utf-8")
    for row in ROWS:
        assert f"`{row['variant']}`" in page
        assert row["source"] in page
