"""Hub ids: what counts as one, which file is taken, and which error each failure gives."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import sam_rlx
from sam_rlx import CheckpointError, HubError, MissingExtraError
from sam_rlx import _hub as hub


def _module(files: dict[str, object]) -> tuple[types.ModuleType, types.ModuleType, list[Any]]:
    """A stand-in for huggingface_hub with its error classes, which needs no network."""
    errors = types.ModuleType("huggingface_hub.errors")

    class HfHubHTTPError(OSError):
        pass

    class RepositoryNotFoundError(HfHubHTTPError):
        pass

    class GatedRepoError(RepositoryNotFoundError):
        pass

    class RevisionNotFoundError(HfHubHTTPError):
        pass

    class EntryNotFoundError(HfHubHTTPError):
        pass

    class LocalEntryNotFoundError(EntryNotFoundError):
        pass

    for kind in list(locals().values()):
        if isinstance(kind, type):
            setattr(errors, kind.__name__, kind)
    calls: list[Any] = []

    def hf_hub_download(repo_id: str, filename: str, **options: Any) -> str:
        calls.append((repo_id, filename, options))
        found = files.get(filename, "EntryNotFoundError")
        if isinstance(found, Path):
            return str(found)
        raise getattr(errors, str(found))(f"{found} for {filename}")

    module = types.ModuleType("huggingface_hub")
    module.hf_hub_download = hf_hub_download  # type: ignore[attr-defined]
    module.errors = errors  # type: ignore[attr-defined]
    return module, errors, calls


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(**files: object) -> list[Any]:
        names = {"safetensors": "model.safetensors", "bin": "pytorch_model.bin"}
        module, errors, calls = _module({names[key]: value for key, value in files.items()})
        monkeypatch.setitem(sys.modules, "huggingface_hub", module)
        monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
        return calls

    return install


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("facebook/sam-vit-base", True),
        ("me/my_model.v2", True),
        ("facebook/sam_vit_b.pth", False),
        ("weights/sam.safetensors", False),
        ("sam-nano", False),
        ("a/b/c", False),
        ("/facebook/x", False),
        ("../x", False),
        ("facebook/", False),
    ],
)
def test_what_counts_as_a_hub_id(name: str, expected: bool) -> None:
    assert hub.is_hub_id(name) is expected


def test_the_first_file_that_exists_is_loaded(install: Any, tiny_checkpoint: Path) -> None:
    calls = install(safetensors=tiny_checkpoint)
    model = sam_rlx.load_model(
        "facebook/sam-vit-base",
        revision="abc",
        token="secret",
        cache_dir="/cache",
        local_files_only=True,
    )
    assert model.source == str(tiny_checkpoint)
    assert calls == [
        (
            "facebook/sam-vit-base",
            "model.safetensors",
            {
                "revision": "abc",
                "token": "secret",
                "cache_dir": "/cache",
                "local_files_only": True,
                "library_name": "sam_rlx",
            },
        )
    ]
    calls = install(bin=tiny_checkpoint)
    sam_rlx.load_model("facebook/sam-vit-base")
    assert [call[1] for call in calls] == ["model.safetensors", "pytorch_model.bin"]


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        ("GatedRepoError", HubError, "gated"),
        ("RepositoryNotFoundError", HubError, "no such repository"),
        ("RevisionNotFoundError", HubError, "no such revision"),
        ("LocalEntryNotFoundError", HubError, "cached file or a connection"),
        ("HfHubHTTPError", HubError, "expected a file from the hub"),
        ("EntryNotFoundError", CheckpointError, "pytorch_model.bin"),
    ],
)
def test_failures_are_typed(
    install: Any, failure: str, error: type[sam_rlx.SamRlxError], text: str
) -> None:
    install(safetensors=failure, bin=failure)
    with pytest.raises(error, match=text):
        sam_rlx.load_model("owner/name")


def test_without_the_extra_one_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r'pip install "sam_rlx\[hub\]"'):
        sam_rlx.load_model("owner/name")


def test_an_existing_path_wins_over_a_hub_id(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "name").write_bytes(tiny_checkpoint.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert sam_rlx.load_model("owner/name").family == "sam"
