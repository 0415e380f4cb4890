"""Hub ids: what counts as one, which file is taken, and which error each failure gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sam_rlx
from sam_rlx import (
    CheckpointError,
    HubError,
    InvalidArgumentError,
    MissingExtraError,
    UnsupportedError,
    _core,
)
from sam_rlx._internal.weights import hub
from support import adapters, hub_module, sam3cpp_files, tiny, tiny_sam2


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(named: dict[str, object] | None = None, **files: object) -> list[Any]:
        names = {"safetensors": "model.safetensors", "bin": "pytorch_model.bin"}
        given = {names[key]: value for key, value in files.items()}
        module, errors, calls = hub_module.stand_in({**given, **(named or {})})
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
        ("weights/SAM.PTH", False),
        ("checkpoints/last.ckpt", False),
        ("models/decoder.onnx", False),
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
    )
    assert model.source == str(tiny_checkpoint)
    options = {
        "revision": "abc",
        "token": "secret",
        "cache_dir": "/cache",
        "local_files_only": False,
        "library_name": "sam_rlx",
    }
    # Of files that are not there none is asked for.
    assert calls == [("facebook/sam-vit-base", "model.safetensors", options)]
    calls = install({"other.pt": tiny_checkpoint}, bin=tiny_checkpoint)
    sam_rlx.load_model("facebook/sam-vit-base")
    assert [call[1] for call in calls] == ["pytorch_model.bin"]


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        ("GatedRepoError", HubError, "gated"),
        ("RepositoryNotFoundError", HubError, "no such repository"),
        ("RevisionNotFoundError", HubError, "no such revision"),
        ("LocalEntryNotFoundError", HubError, "cached file or a connection"),
        ("HfHubHTTPError", HubError, "expected a file from the hub"),
        ("EntryNotFoundError", CheckpointError, "one shard index.*found none"),
    ],
)
def test_failures_are_typed(
    install: Any, failure: str, error: type[sam_rlx.SamRlxError], text: str
) -> None:
    install({"model.safetensors": failure})
    with pytest.raises(error, match=text):
        sam_rlx.load_model("owner/name")


class ForeignError(Exception):
    """As those of the package below the hub's, which are of no class that we know."""


@pytest.mark.parametrize(
    "failure",
    [
        ForeignError("the peer closed the connection"),
        OSError("consistency check failed"),
        ValueError("invalid pointer path"),
        RecursionError("too deep"),
        KeyError("etag"),
        TimeoutError(),
        ConnectionResetError(104, "reset"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_whatever_a_server_does_is_an_error_of_the_hub(install: Any, failure: Exception) -> None:
    install(safetensors=failure)
    with pytest.raises(HubError, match=r"owner/name: expected a file from the hub, found .+"):
        sam_rlx.load_model("owner/name")
    with pytest.raises(HubError, match="owner/name"):
        sam_rlx.load_model("owner/name", filename="model.safetensors")


def test_a_file_that_leads_out_of_the_cache_is_refused(
    install: Any, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    """As a server's ETag with "../" makes it."""
    repository = tmp_path / "models--owner--name"
    snapshot, blobs = repository / "snapshots" / "a", repository / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    for target in (blobs / "x", tmp_path / "x"):
        target.write_bytes(tiny_checkpoint.read_bytes())
    file = snapshot / "model.safetensors"
    try:
        file.symlink_to("../../blobs/x")
    except OSError:
        pytest.skip("no symbolic links here")
    install(safetensors=file)
    assert sam_rlx.load_model("owner/name").family == "sam"
    file.unlink()
    file.symlink_to("../../blobs/../../x")
    with pytest.raises(HubError, match="inside of the cache"):
        sam_rlx.load_model("owner/name")


@pytest.mark.parametrize("failure", [OSError(28, "no space left"), MemoryError()])
def test_an_error_of_the_machine_stays_one(install: Any, failure: Exception) -> None:
    install(safetensors=failure)
    with pytest.raises(type(failure)) as caught:
        sam_rlx.load_model("owner/name")
    assert caught.value is failure


def test_a_list_that_breaks_is_an_error_of_the_hub(
    install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any, **__: Any) -> Any:
        raise ForeignError("no HTTP")

    install()
    monkeypatch.setattr(sys.modules["huggingface_hub"], "list_repo_files", breaks)
    with pytest.raises(HubError, match=r"owner/name: .* no HTTP"):
        sam_rlx.load_model("owner/name")


def test_without_a_connection_the_cache_is_looked_into(
    install: Any, monkeypatch: pytest.MonkeyPatch, tiny_checkpoint: Path
) -> None:
    def offline(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route")

    calls = install({"sam.pt": tiny_checkpoint, "config.json": "LocalEntryNotFoundError"})
    monkeypatch.setattr(sys.modules["huggingface_hub"], "list_repo_files", offline)
    with pytest.raises(HubError, match="no route"):
        sam_rlx.load_model("owner/name")
    assert calls == []
    monkeypatch.setattr(hub._Repository, "cached_names", lambda self: ["sam.pt"])
    assert sam_rlx.load_model("owner/name").family == "sam"
    assert all(call[2]["local_files_only"] for call in calls)


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


# ---------------------------------------------------------------- which file it is

FOLDERS = {
    "the usual name": ["model.safetensors", "pytorch_model.bin", "other.pth"],
    "another index": ["sam.safetensors.index.json", "a.safetensors", "b.safetensors"],
    "an index before the older name": ["pytorch_model.bin", "x.safetensors.index.json"],
    "what a training leaves": ["w.pt", "trainer_state.pt", "mp_rank_00_optim_states.pt"],
    "one folder inside": ["README.md", "weights/sam.pt", "weights/config.json"],
    "two levels down": ["a/b/model.safetensors", "a/b/other.bin"],
    "too deep": ["a/b/c/sam.pt"],
    "hidden files": ["sam.pt", "._sam.pt"],
    "a hidden folder": [".cache/x/sam.pt", "config.json"],
    "several folders": ["checkpoint-1/model.safetensors", "checkpoint-2/model.safetensors"],
    "beside a folder": ["sam.pt", "old/sam.pt"],
    "several": ["a.pt", "b.gguf"],
    "shards without an index": ["x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors"],
    "parts of a GGUF": ["x-00001-of-00002.gguf", "x-00002-of-00002.gguf"],
    "an adapter beside a model": ["adapter_config.json", "model.safetensors"],
    "a distributed checkpoint": ["__0_0.distcp", ".metadata"],
    "nothing": ["README.md"],
}


@pytest.mark.parametrize("names", FOLDERS.values(), ids=FOLDERS)
def test_a_repository_is_read_as_a_folder_with_its_files(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"{}")

    def answer(choose: Callable[[], str]) -> tuple[type | None, str]:
        try:
            return None, choose()
        except sam_rlx.SamRlxError as error:
            text = str(error).partition(": expected ")[2]
            return type(error), text.replace("prefer", "filename")

    def of_disk() -> str:
        return _core.resolve_checkpoint(str(tmp_path), "").relative_to(tmp_path).as_posix()

    of_hub = answer(lambda: _core.choose_checkpoint(names, "owner/name", "filename="))
    assert of_hub == answer(of_disk)


def test_files_of_a_folder_inside_come_together(
    install: Any, tmp_path: Path, tiny_weights: Any
) -> None:
    path = tiny.save_safetensors(tmp_path / "one.bin", tiny_weights)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tiny_weights, "one.bin")}))
    files = {"a/one.bin": path, f"a/{index.name}": index, "config.json": "HfHubHTTPError"}
    calls = install(files)
    assert sam_rlx.load_model("owner/name").source == str(index)
    assert [call[1] for call in calls] == [f"a/{index.name}", "a/one.bin"]


# ---------------------------------------------------------------- other files of a repository


def _cached(folder: Path, content: bytes, *names: str) -> dict[str, object]:
    """Write files as a snapshot of a repository has them."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content)
    return {name: folder / name for name in names}


@pytest.mark.parametrize(
    "name", ["sam_tiny.pt", "sam_tiny.pth", "sam-q8_0.gguf", "weights.safetensors"]
)
def test_the_only_checkpoint_is_taken(
    install: Any, tmp_path: Path, tiny_checkpoint: Path, name: str
) -> None:
    files = _cached(tmp_path / "s", tiny_checkpoint.read_bytes(), name)
    files |= _cached(tmp_path / "s", b"", "README.md", "optimizer.pt", "training_args.bin")
    install(files)
    assert sam_rlx.load_model("owner/name").source.endswith(name)


def test_of_several_checkpoints_one_must_be_named(
    install: Any, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    install(_cached(tmp_path / "s", tiny_checkpoint.read_bytes(), "a.pt", "b.gguf"))
    with pytest.raises(CheckpointError, match=r"filename=.*a\.pt, b\.gguf"):
        sam_rlx.load_model("owner/name")
    assert sam_rlx.load_model("owner/name", filename="a.pt").source.endswith("a.pt")
    with pytest.raises(CheckpointError, match=r"'c\.pt', found a\.pt, b\.gguf"):
        sam_rlx.load_model("owner/name", filename="c.pt")


@pytest.mark.parametrize("index", ["model.safetensors.index.json", "pytorch_model.bin.index.json"])
def test_shards_come_with_their_index(
    install: Any, tmp_path: Path, tiny_weights: Any, index: str
) -> None:
    folder = tmp_path / "s"
    names = sorted(tiny_weights)
    halves = {"one.bin": names[::2], "two.bin": names[1::2]}
    files = _cached(folder, b"", *halves, index)
    for shard, part in halves.items():
        tiny.save_safetensors(folder / shard, {name: tiny_weights[name] for name in part})
    weight_map = {name: shard for shard, part in halves.items() for name in part}
    (folder / index).write_text(json.dumps({"weight_map": weight_map}))
    calls = install(files)
    assert sam_rlx.load_model("owner/name").family == "sam"
    assert {"one.bin", "two.bin"} <= {call[1] for call in calls}
    install({name: path for name, path in files.items() if name != "two.bin"})
    with pytest.raises(CheckpointError, match=r"two\.bin"):
        sam_rlx.load_model("owner/name")


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"error": "Repository not found"}', "9" * 5000, '{"weight_map": [1, "a"]}'],
    ids=["deep", "error", "digits", "list"],
)
def test_an_answer_of_the_hub_that_is_no_index(install: Any, tmp_path: Path, text: str) -> None:
    name = "model.safetensors.index.json"
    install(_cached(tmp_path / "s", text.encode(), name))
    words = "Repository not found" if "error" in text else "owner/name: .*an index of shards"
    with pytest.raises(CheckpointError, match=words):
        sam_rlx.load_model("owner/name")


@pytest.mark.parametrize("text", ["[]", "{", '{"weight_map": {"a": "../b"}}', '{"weight_map": 3}'])
def test_an_index_that_is_none(install: Any, tmp_path: Path, text: str) -> None:
    name = "model.safetensors.index.json"
    install(_cached(tmp_path / "s", text.encode(), name))
    with pytest.raises(CheckpointError, match=name):
        sam_rlx.load_model("owner/name")


def test_parts_of_a_gguf_come_with_the_first(install: Any, tmp_path: Path) -> None:
    names = [f"sam-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    calls = install(_cached(tmp_path / "s", b"GGUF", *names))
    with pytest.raises(CheckpointError):  # no GGUF files at all
        sam_rlx.load_model("owner/name")
    assert set(names) <= {call[1] for call in calls}


def test_an_adapter_is_refused(install: Any, tmp_path: Path) -> None:
    files = _cached(tmp_path / "s", b"", "adapter_config.json", "adapter_model.safetensors")
    install(files)
    with pytest.raises(UnsupportedError, match="merge"):
        sam_rlx.load_model("owner/name")


def test_an_adapter_is_merged(install: Any, tmp_path: Path, tiny_checkpoint: Path) -> None:
    module = "image_encoder.blocks.0.attn.qkv"
    tensors, _ = adapters.for_modules(tiny.sam_weights(), [module], 4, 2.0)
    folder = adapters.save(tmp_path / "lora", tensors)
    calls = install({path.name: path for path in folder.iterdir()})
    model = sam_rlx.load_model(tiny_checkpoint, lora="owner/lora")
    assert [call[:2] for call in calls] == [
        ("owner/lora", "adapter_config.json"),
        ("owner/lora", "adapter_model.safetensors"),
    ]
    assert model.lora == str(folder)
    assert model.report()["merged"] == [f"{module}.weight"]


@pytest.mark.parametrize("left_out", ["adapter_config.json", "adapter_model.safetensors"])
def test_a_repository_that_is_no_adapter(
    install: Any, tmp_path: Path, tiny_checkpoint: Path, left_out: str
) -> None:
    folder = adapters.save(tmp_path / "lora", {})
    install({path.name: path for path in folder.iterdir() if path.name != left_out})
    with pytest.raises(CheckpointError, match=r"owner/lora: expected adapter_config.json and"):
        sam_rlx.load_model(tiny_checkpoint, lora="owner/lora")
    install(dict.fromkeys(_core.ADAPTER_FILES, "GatedRepoError"))
    with pytest.raises(HubError, match="gated"):
        sam_rlx.load_model(tiny_checkpoint, lora="owner/lora")


def test_filename_is_for_hub_ids(tiny_checkpoint: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="filename"):
        sam_rlx.load_model(tiny_checkpoint, filename="a.pt")


_COMMIT = "0123456789" * 4


def _snapshot(cache: Path) -> Path:
    """Make the folder of a repository in a cache of huggingface_hub."""
    repository = cache / "models--owner--name"
    snapshot = repository / "snapshots" / _COMMIT
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(_COMMIT)
    (repository / "blobs").mkdir()
    return snapshot


def _sam3cpp_files() -> dict[str, bytes]:
    """SAM 2 in the containers of sam3.cpp and of its fork."""
    config = json.loads(tiny_sam2.metadata(tiny_sam2.TINY)["config"])
    weights = sam3cpp_files.sam2_weights(tiny_sam2.weights(tiny_sam2.TINY))
    settings = sam3cpp_files.sam2_settings(config)
    tensors = sam3cpp_files.packed(weights, "F32", lambda value: value)
    return {
        "sam2.1_hiera_tiny_f32.ggml": sam3cpp_files.ggml_bytes("sam2", settings, tensors),
        "sam2.1_hiera_tiny_f32.gguf": sam3cpp_files.fork_bytes("sam2", settings, tensors),
    }


def test_a_repository_of_sam3cpp_from_the_cache(tmp_path: Path) -> None:
    """Several files: one has to be named; one: it is taken."""
    pytest.importorskip("huggingface_hub", reason="needs huggingface-hub")
    snapshot, files = _snapshot(tmp_path), _sam3cpp_files()
    for name, content in files.items():
        (snapshot / name).write_bytes(content)
    options: Any = {"cache_dir": tmp_path, "local_files_only": True}
    for name in files:
        model = sam_rlx.load_model("owner/name", filename=name, **options)
        assert (model.family, model.source) == ("sam2", str(snapshot / name))
    with pytest.raises(CheckpointError, match=r"filename=.*tiny_f32\.ggml, .*tiny_f32\.gguf"):
        sam_rlx.load_model("owner/name", **options)
    for first, second in (files, list(files)[::-1]):
        (snapshot / second).unlink()
        model = sam_rlx.load_model("owner/name", **options)
        assert (model.family, model.source) == ("sam2", str(snapshot / first))
        (snapshot / second).write_bytes(files[second])


def test_settings_of_images_come_with_transformers_config(
    install: Any, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    files = _cached(tmp_path / "s", tiny_checkpoint.read_bytes(), "model.safetensors")
    files |= _cached(tmp_path / "s", b"{}", "config.json", "preprocessor_config.json")
    calls = install(files)
    sam_rlx.load_model("owner/name")
    names = [call[1] for call in calls]
    assert names[1:] == ["config.json", "preprocessor_config.json"]


@pytest.mark.parametrize("name", ["model.safetensors", "sam_tiny.pt"])
def test_from_a_cache_without_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_checkpoint: Path, name: str
) -> None:
    """huggingface_hub itself, on a cache in its layout."""
    pytest.importorskip("huggingface_hub", reason="needs huggingface-hub")
    snapshot = _snapshot(tmp_path)
    (snapshot / name).write_bytes(tiny_checkpoint.read_bytes())
    options: Any = {"cache_dir": tmp_path, "local_files_only": True}
    assert sam_rlx.load_model("owner/name", **options).source == str(snapshot / name)
    assert sam_rlx.load_model("owner/name", filename=name, **options).family == "sam"
    assert sam_rlx.load_model("owner/name", revision=_COMMIT, **options).family == "sam"
    with pytest.raises(HubError, match="cached file or a connection"):
        sam_rlx.load_model("owner/other", **options)
    with pytest.raises(HubError, match="cached file or a connection"):
        sam_rlx.load_model("owner/name", filename="gone.pt", **options)
