"""Changed structures of whole files and folders: each is read, or refused with an error of ours.

Models of ``.ggml``, Trainer folders, objects of images (NPZ, COCO), tables of Parquet, folders of
batches (manifests, journals, rows, sessions of clips) and YAML configs are changed by the seed:
their trees, columns, arrays and headers, as well as their bytes. Processes with a limit of memory
read them; one that takes too long is ended. ``python tests/nightly structures --seconds 600``
"""

from __future__ import annotations

import io as streams
import json
import os
import queue
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import sam3cpp_files as files_of
from support import tiny, tiny_sam2

from nightly.damaged_files import damage_arrays

Generator = np.random.Generator
HANG = 60  # seconds
ADDRESSES = 6 << 30  # bytes of a reader's address space
# Memory that an input may take: so many times its size, and so many bytes more.
TIMES, MORE = 10, 30 << 20
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 0x7F7F7F7F, 1 << 20, 255, 65536)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e300, 10**30, 2**53, 2**63, -(2**63), 10**4400),
    *("", "x", "0", "1e999", "../x", "/", "\\", "\ud800", "a\0b", "é", "x" * 3000, "1" * 5000),
    *([], {}, [[]], [None], [0, 0, 0, 0], [1e300] * 4, {"": {}}, {"counts": "x"}, [{}] * 3),
)


# ---------------------------------------------------------------- changes


def change_bytes(data: bytes, rng: Generator) -> bytes:
    """Change numbers, cut, repeat, remove or overwrite a part, most often near the beginning."""
    out = bytearray(data)
    if not out:
        return b"x"
    size = len(out)
    for _ in range(int(rng.choice((1, 1, 2, 8)))):
        at = int(min(size - 1, abs(rng.normal(0, 600)))) if rng.random() < 0.6 else 0
        at = at or int(rng.integers(0, size))
        length = int(min(size - at, rng.choice((1, 4, 8, 64, 4096))))
        how = rng.integers(0, 7)
        if how == 0:
            out[at] ^= 1 << int(rng.integers(0, 8))
        elif how == 1:
            at -= at % 4
            out[at : at + 4] = struct.pack("<i", int(rng.choice(EXTREMES)))
        elif how == 2:
            out[at : at + length] = rng.bytes(length)
        elif how == 3:
            out[at:at] = out[at : at + length]
        elif how == 4:
            del out[at : at + length]
        elif how == 5:
            del out[at:]
        else:
            out[at : at + length] = bytes(length)
        size = max(1, len(out))
        out = out or bytearray(b"x")
    return bytes(out)


def change_tree(tree: Any, rng: Generator) -> Any:
    """Replace, remove, repeat or wrap one node of a document."""
    parents: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            parents.append((node, key))
            if isinstance(node[key], (dict, list)):
                stack.append(node[key])
    if not parents or rng.random() < 0.03:
        return ODD[rng.integers(0, len(ODD))]
    for _ in range(int(rng.choice((1, 1, 3)))):
        node, key = parents[rng.integers(0, len(parents))]
        if (isinstance(node, dict) and key not in node) or (
            isinstance(node, list) and key >= len(node)
        ):
            continue
        how = rng.integers(0, 8)
        if how < 4:
            node[key] = ODD[rng.integers(0, len(ODD))]
        elif how == 4:
            del node[key]
        elif how == 5:
            other, inner = parents[rng.integers(0, len(parents))]
            inside = inner in (other if isinstance(other, dict) else range(len(other)))
            node[key] = json.loads(json.dumps(other[inner])) if inside else None
        elif how == 6:
            node[key] = [node[key]] * int(rng.choice((1, 2, 50)))
        else:
            for _ in range(int(rng.choice((1, 40, 2000)))):
                node[key] = [node[key]]
    return tree


def _dumped(tree: Any) -> bytes:
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(20_000)
    try:
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return b"[" * 5000


def change_json(data: bytes, rng: Generator) -> bytes:
    return _dumped(change_tree(json.loads(data), rng))


def change_lines(data: bytes, rng: Generator) -> bytes:
    """Change a line of a journal, or remove, repeat or join lines."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return change_bytes(data, rng)
    at = int(rng.integers(0, len(lines)))
    how = rng.integers(0, 5)
    if how < 2:
        try:
            lines[at] = change_json(lines[at], rng) + b"\n"
        except ValueError:
            lines[at] = change_bytes(lines[at], rng)
    elif how == 2:
        lines.insert(at, lines[at])
    elif how == 3:
        del lines[at]
    else:
        lines[at] = lines[at].rstrip(b"\n")
    return b"".join(lines)


def change_yaml(data: bytes, rng: Generator) -> bytes:
    import yaml

    how = rng.integers(0, 6)
    if how < 4:
        tree = change_tree(yaml.safe_load(data), rng)
        try:
            return str(yaml.safe_dump(tree)).encode("utf-8", "surrogatepass")
        except (yaml.YAMLError, RecursionError, ValueError):
            return data
    extras = (
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b, *b, *b]\nmodel: *c\n",
        b"model: &m\n  a: *m\n",
        b"model: !!python/object/apply:os.system [ls]\n",
        b"model: !!timestamp 2020-13-41\n",
        b"model: !!int 0x\n",
        b"model: !!float ''\n",
        b"model: {? [a, b] : c}\n",
        b"? {a: b}\n: model\n",
        b"model: '\\x00'\n",
        b"%YAML 9.9\n---\nmodel: 1\n",
        b"---\nmodel: {}\n---\nmodel: {}\n",
        b"model: ${a.b}\n",
        b"model:\n  image_size: ${model.image_size}\n",
        b"[" * 3000,
        b"\xff\xfe\x00",
    )
    extra = extras[rng.integers(0, len(extras))]
    return extra + data if how == 4 else data + extra


def change_safetensors(data: bytes, rng: Generator) -> bytes:
    (length,) = struct.unpack_from("<Q", data)
    header = change_json(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def change_ggml(data: bytes, rng: Generator) -> bytes:
    """Change one of the numbers of the header or of a tensor's description."""
    out = bytearray(data)
    offsets = range(0, 600, 4) if rng.random() < 0.6 else range(0, len(data) - 4, 4)
    for _ in range(int(rng.choice((1, 1, 2)))):
        at = offsets[int(rng.integers(0, len(offsets)))]
        (before,) = struct.unpack_from("<i", data, at)
        near = (before + 1, before - 1, before * 2 & 0x7FFFFFFF, before // 2)
        struct.pack_into("<i", out, at, int(rng.choice((*EXTREMES, *near))))
    return bytes(out)


def change_parquet(data: bytes, rng: Generator) -> bytes:
    """Replace, drop, rename or add a column, or take rows away."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(streams.BytesIO(data))
    at = int(rng.integers(0, table.num_columns))
    name, rows = table.column_names[at], table.num_rows
    columns: tuple[Any, ...] = (
        pa.nulls(rows),
        pa.array([1] * rows),
        pa.array([float("nan")] * rows),
        pa.array(["x"] * rows),
        pa.array([b"x"] * rows),
        pa.array([[1.0, 2.0, 3.0, 4.0]] * rows),
        pa.array([[[1e300, -1.0]]] * rows),
        pa.array([{"bytes": b"x", "path": "../x"}] * rows),
        pa.array([[None]] * rows, pa.list_(pa.float64())),
        pa.array([True] * rows),
        pa.array([2**62] * rows, pa.timestamp("ns")),
        pa.array([["a", None]] * rows),
        pa.array(["x"] * rows).dictionary_encode(),
    )
    how = rng.integers(0, 6)
    if how < 3:
        table = table.set_column(at, name, columns[rng.integers(0, len(columns))])
    elif how == 3 and table.num_columns > 1:
        table = table.remove_column(at)
    elif how == 4:
        names = ("", "boxes", "text", "x0", "labels", "image", "path", "é")
        renamed = [*table.column_names]
        renamed[at] = names[rng.integers(0, len(names))]
        table = table.rename_columns(renamed)
    else:
        table = table.slice(0, int(rng.integers(0, rows + 1)))
    out = streams.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


BY_SUFFIX: dict[str, Callable[[bytes, Generator], bytes]] = {
    ".json": change_json,
    ".jsonl": change_lines,
    ".yaml": change_yaml,
    ".npz": damage_arrays,
    ".safetensors": change_safetensors,
    ".ggml": change_ggml,
    ".parquet": change_parquet,
}


def changed(files: dict[str, bytes], rng: Generator) -> dict[str, bytes]:
    """Return the files of an input with one of them changed, removed or exchanged."""
    result = dict(files)
    name = sorted(files)[rng.integers(0, len(files))]
    if len(files) > 1 and rng.random() < 0.15:
        other = sorted(files)[rng.integers(0, len(files))]
        result[name], result[other] = result[other], result[name]
        if rng.random() < 0.4:
            del result[name]
        return result
    change = BY_SUFFIX.get(Path(name).suffix)
    by_structure = change is not None and rng.random() < 0.65
    try:
        result[name] = (change if change and by_structure else change_bytes)(files[name], rng)
    except (ValueError, TypeError, KeyError, OverflowError):  # no way to write such a file
        result[name] = change_bytes(files[name], rng)
    return result


# ---------------------------------------------------------------- what is changed


@dataclass
class Kind:
    """Whole files of one kind, below one folder, and what is read of them."""

    name: str
    files: dict[str, bytes]
    target: str = ""


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def ggml(folder: Path) -> Kind:
    config = tiny_sam2.ImageEncoderConfig(
        image_size=128, embed_dim=32, stages=(1, 1, 2, 1), global_att_blocks=(3,), d_model=64
    )
    weights = files_of.sam2_weights(tiny_sam2.weights(config))
    settings = files_of.sam2_settings(json.loads(tiny_sam2.metadata(config)["config"]))
    stored = files_of.packed(weights, "F32", lambda value: value)
    data = files_of.ggml_bytes("sam2", settings, stored)
    return Kind("ggml", {"model.ggml": data}, "model.ggml")


def trainer(folder: Path) -> Kind:
    """Return what transformers' Trainer leaves: the model beside the state of the training."""
    shard = tiny.save_safetensors(folder / "model.safetensors", tiny.sam_weights())
    state = {"epoch": 1.0, "global_step": 500, "log_history": [{"loss": 0.5, "step": 500}]}
    return Kind(
        "trainer",
        {
            "model.safetensors": shard.read_bytes(),
            "config.json": json.dumps(
                {"model_type": "sam", "architectures": ["SamModel"]}
            ).encode(),
            "trainer_state.json": json.dumps(state).encode(),
            "preprocessor_config.json": json.dumps({"image_mean": [0.5] * 3}).encode(),
            "training_args.bin": b"PK\x03\x04",
            "checkpoint-500/model.safetensors": shard.read_bytes(),
        },
    )


def _object() -> Any:
    mask = np.zeros((40, 60), bool)
    mask[10:30, 15:45] = True
    return mask


def coco(folder: Path) -> Kind:
    from sam_rlx import io

    image = {"file_name": "cup.png", "height": 40, "width": 60}
    entry = io.coco_annotation(_object())
    outline = {"segmentation": [[1, 1, 20, 1, 20, 30]], "bbox": [1, 1, 19, 29], "area": 551}
    document = io.coco_document(image, [entry, {**entry, "category_id": 1}, outline], ["cup"])
    return Kind("coco", {"coco.json": _dumped(document)}, "coco.json")


def arrays(folder: Path) -> Kind:
    out = streams.BytesIO()
    np.savez(
        out,
        masks=np.stack([_object(), ~_object()]),
        names=np.array(["cup", "table"]),
        scores=np.array([0.9, 0.8], np.float32),
        colors=np.array([[255, 0, 0], [0, 255, 0]], np.uint8),
    )
    return Kind("arrays", {"a.npz": out.getvalue()}, "a.npz")


def _inputs(folder: Path) -> list[bytes]:
    from PIL import Image

    rng = np.random.default_rng(0)
    images = []
    for index in range(3):
        pixels = Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8))
        pixels.save(folder / f"{index}.png")
        images.append((folder / f"{index}.png").read_bytes())
    return images


def table(folder: Path) -> Kind:
    import pyarrow as pa
    from pyarrow import parquet

    images = _inputs(folder)
    columns = {
        "image": [{"bytes": data, "path": f"{k}.png"} for k, data in enumerate(images)],
        "boxes": [[[5.0, 5.0, 50.0, 30.0]]] * 3,
        "points": [[[9.0, 9.0]]] * 3,
        "labels": [[1]] * 3,
    }
    out = streams.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return Kind("table", {"table.parquet": out.getvalue()}, "table.parquet")


def batch_folder(folder: Path) -> Kind:
    """Return a batch that was interrupted behind its first image, and in a clip."""
    import sam_rlx
    from sam_rlx._video.clip_writer import ClipWriter

    _inputs(folder / "inputs")
    with ClipWriter(folder / "inputs" / "clip.mp4", 10) as writer:
        for index in range(4):
            writer.add(np.full((40, 60, 3), 40 * index, np.uint8))
    save, saves = sam_rlx.VideoPredictor.save, [0]

    def interrupted(video: Any, path: Any) -> None:
        save(video, path)
        saves[0] += 1
        if saves[0] == 2:
            raise KeyboardInterrupt

    sam_rlx.VideoPredictor.save = interrupted  # type: ignore[method-assign]
    try:
        _run_batch(folder)
    except KeyboardInterrupt:
        pass
    finally:
        sam_rlx.VideoPredictor.save = save  # type: ignore[method-assign]
    return Kind("batch", _contents(folder / "out"), str(folder))


def config(folder: Path) -> Kind:
    text = b"""
model:
  _target_: sam2.modeling.sam2_base.SAM2Base
  image_encoder:
    scalp: 1
    trunk: {embed_dim: 16, num_heads: 1, stages: [1, 1, 2, 1]}
  memory_attention:
    d_model: 256
    layer: {self_attention: {rope_theta: 10000.0, feat_sizes: [64, 64]}, dropout: 0.1}
  num_maskmem: 7
  add_tpos_enc_to_obj_ptrs: false
  directly_add_no_mem_embed: true
  fixed_no_obj_ptr: true
  iou_prediction_use_sigmoid: true
  pred_obj_scores: true
  use_high_res_features_in_sam: true
  use_mask_input_as_output_without_sam: true
  use_multimask_token_for_obj_ptr: true
  use_obj_ptrs_in_encoder: true
  image_size: 1024
  sigmoid_scale_for_mem_enc: 20.0
  sam_mask_decoder_extra_args: {dynamic_multimask_via_stability: true}
  max_obj_ptrs_in_encoder: 16
"""
    return Kind("config", {"sam2.yaml": text}, "sam2.yaml")


KINDS: dict[str, Callable[[Path], Kind]] = {
    "ggml": ggml,
    "trainer": trainer,
    "coco": coco,
    "arrays": arrays,
    "table": table,
    "batch": batch_folder,
    "config": config,
}


# ---------------------------------------------------------------- readers


def _in_process(job: Any, workers: Any, blocks: Any, items_of: Any, report: Any) -> None:
    """Stand in for the engine of worker processes."""
    from sam_rlx._batch.work import BlockWorker

    worker = BlockWorker(job)
    for block in blocks:
        worker.run(block, list(items_of(block)), report)


def _run_batch(folder: Path, table: Path | None = None, out: Path | None = None) -> None:
    import sam_rlx.batch
    from sam_rlx._batch import local

    local.run = _in_process
    prompts: dict[str, Any] = {} if table else {"boxes": [[5, 5, 50, 30]]}
    out = out or folder / "out"
    words, model = str(table or folder / "inputs"), folder.parent / "tiny.safetensors"
    sam_rlx.batch.run(
        words, out, model=model, workers=1, num_threads=1, block=2, keep_every=1, **prompts
    )
    for _ in sam_rlx.batch.read(out):
        pass


def read(kind: str, folder: Path, target: str) -> None:
    """Read an input of a kind with what reads such files in the library."""
    if kind in ("ggml", "trainer"):
        import sam_rlx

        sam_rlx.load_model(folder / target)
    elif kind == "config":
        from sam_rlx.compat.sam2.config_file import read_settings

        read_settings(folder / target)
    elif kind in ("coco", "arrays"):
        from sam_rlx._interactive.saved import OpenImages
        from sam_rlx._interactive.saved_documents import read_saved

        images = OpenImages(["cup.png"], 0, lambda index: (40, 60))
        read_saved(target, (folder / target).read_bytes(), images)
    elif kind == "table":
        _run_batch(folder, folder / target)
    else:
        _run_batch(Path(target), out=folder)


def _memory(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) << 10


def attempt(kind: str, folder: Path, target: str) -> str:
    """Read an input: ``"read"``, ``"refused"``, or an error that is not ours."""
    import sam_rlx

    try:
        read(kind, folder, target)
    except sam_rlx.SamRlxError as error:
        return "refused" if "expected" in str(error) else f"without an expectation: {error}"
    except OSError as error:
        told = error.errno is not None or "expected" in str(error)
        return "refused" if told else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def serve() -> None:
    """Read inputs that lines of standard input name, and answer with result, time and memory."""
    import resource

    import sam_rlx.batch  # noqa: F401

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    for line in sys.stdin:
        kind, folder, target = json.loads(line)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = _memory("VmRSS"), time.monotonic()
        result = attempt(kind, Path(folder), target)
        seconds, peak = time.monotonic() - start, max(0, _memory("VmHWM") - before)
        answers.write(json.dumps([result[:300], seconds, peak]) + "\n")
        answers.flush()


class Reader:
    """A process that reads inputs; begun anew where one ends it or takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                self._lines.put(line)
            self._lines.put("")

        threading.Thread(target=listen, daemon=True).start()
        self._process = process

    def ask(self, *question: str) -> tuple[str, float, int]:
        """Return result, seconds and bytes of one input."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        start = time.monotonic()
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=HANG)
        except queue.Empty:
            self.end()
            return f"hang: nothing within {HANG} s", time.monotonic() - start, 0
        if not line:
            status = self._process.wait()
            self.end()
            return f"crash: exit status {status}", time.monotonic() - start, 0
        result, seconds, peak = json.loads(line)
        return result, seconds, peak

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@dataclass
class Found:
    """What the inputs of one kind have come to."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)  # seconds, number of the input
    largest: tuple[int, int, int] = (0, 0, -1)  # bytes of memory, of the input, its number

    def add(self, number: int, size: int, answer: tuple[str, float, int]) -> None:
        """Count an answer."""
        result, seconds, peak = answer
        if result in ("read", "refused") and peak > TIMES * size + MORE:
            result = f"memory: {peak >> 20} MB for {size} bytes"
        fine = result in ("read", "refused")
        self.counts[result if fine else "wrong"] += 1
        if not fine:
            self.wrong[f"input {number}: {result}"] += 1
        self.slowest = max(self.slowest, (seconds, number))
        self.largest = max(self.largest, (peak, size, number))

    def line(self, name: str) -> str:
        """Return the line that tells of it."""
        counts = ", ".join(f"{key} {self.counts[key]}" for key in ("read", "refused", "wrong"))
        peak, size, _ = self.largest
        return (
            f"{name}: {self.counts.total()} inputs: {counts}; slowest {self.slowest[0]:.2f} s "
            f"(input {self.slowest[1]}), most memory {peak >> 20} MB for {size >> 10} kB"
        )


def _write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def input_of(kind: Kind, seed: int, number: int) -> dict[str, bytes]:
    """Return the files of one input: the same for the same seed and number."""
    return changed(kind.files, np.random.default_rng([seed, number]))


def main(
    seconds: float = 600, seed: int = 0, names: tuple[str, ...] = tuple(KINDS), most: int = 10**9
) -> int:
    """Read changed inputs for a time, `most` of each kind; print counts; return the wrong ones."""
    folder = Path(tempfile.mkdtemp(prefix="sam_rlx_structures_"))
    reader = Reader()
    found = {name: Found() for name in names}
    try:
        tiny_sam2.save_safetensors(folder / "tiny.safetensors", tiny_sam2.TINY, tiny_sam2.weights())
        kinds = []
        for name in names:
            (folder / name / "inputs").mkdir(parents=True)
            kinds.append(KINDS[name](folder / name))
        for kind in kinds:  # as they are, they are read
            _write(folder / "changed", kind.files)
            answer = reader.ask(kind.name, str(folder / "changed"), kind.target)
            if answer[0] != "read":
                found[kind.name].wrong[f"unchanged: {answer[0]}"] += 1
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end and number < most * len(kinds):
            kind = kinds[number % len(kinds)]
            files = input_of(kind, seed, number)
            _write(folder / "changed", files)
            answer = reader.ask(kind.name, str(folder / "changed"), kind.target)
            found[kind.name].add(number, sum(map(len, files.values())), answer)
            number += 1
    finally:
        reader.end()
        shutil.rmtree(folder, ignore_errors=True)
    for name, one in found.items():
        print(one.line(name))
        for text, _ in one.wrong.most_common(20):
            print(f"  {text}".encode("ascii", "backslashreplace").decode())
    wrong = sum(one.wrong.total() for one in found.values())
    total = sum(one.counts.total() for one in found.values())
    print(f"structures: {total} inputs, seed {seed}, wrong {wrong}", flush=True)
    return wrong


if __name__ == "__main__" and sys.argv[1:] == ["--serve"]:
    serve()
