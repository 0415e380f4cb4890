"""The benchmark commands run and print their tables. Nothing is concluded from the figures."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import HANG_SECONDS
from support.cases import quick

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = [pytest.mark.bench, pytest.mark.source_tree]


@pytest.fixture
def importable():
    """Let the modules of the benchmarks be imported."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def script(name, *arguments):
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_quickly(folder, engines, workloads):
    """Return what one round of the smallest networks gives, as JSON and as text."""
    result = folder / "result.json"
    shown = script(
        "run.py",
        "--quick",
        *("--rounds", "1", "--threads", "1", "--json", str(result)),
        *("--engines", *engines),
        *("--workloads", *workloads),
    )
    return json.loads(result.read_text()), shown


def check_rows(found, shown, engines, workloads):
    assert [w["name"] for w in found["workloads"]] == workloads
    for workload in found["workloads"]:
        assert f"### {workload['name']} (tiny" in shown
        assert sorted(row["engine"] for row in workload["rows"]) == sorted(engines)
        for row in workload["rows"]:
            assert row["failure"] == ""
            assert len(row["seconds"]) == 1
            assert row["peak_rss"] > 10_000_000
            assert len(set(row["sample"])) > 1 or workload["name"] == "everything"
    # The engines did the same work on the same weights.
    assert "differs from PyTorch's" not in shown


@pytest.mark.parity
@pytest.mark.parametrize(
    "workloads", quick([["memory-attention"], ["encoder", "memory-attention", "sam3-text"]], 0)
)
def test_run_measures_ours_beside_pytorch(testing, tmp_path, workloads):
    """One workload; all are compared in this process, below."""
    engines = ["sam_rlx", "pytorch"]
    found, shown = run_quickly(tmp_path, engines, workloads)
    check_rows(found, shown, engines, workloads)
    assert found["peak_gflops"] > 0
    assert " %)" in shown
    assert "7 maps and 16 pointers" in shown


@pytest.mark.parity
@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "packages"),
    [
        ("onnxruntime", ("onnxruntime", "onnx")),
        ("openvino", ("openvino", "onnx")),
        ("transformers", ("transformers",)),
    ],
)
def test_other_engines_run_sam2(tmp_path, engine, packages):
    for name in packages:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    engines, workloads = ["pytorch", engine], ["hiera-base-plus"]
    found, shown = run_quickly(tmp_path, engines, workloads)
    check_rows(found, shown, engines, workloads)


@pytest.mark.parity
@pytest.mark.slow
def test_run_measures_reduced_precision(tmp_path):
    engines = ["pytorch", "pytorch-bfloat16", "sam_rlx-int8", "sam_rlx-bfloat16"]
    if all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnx")):
        engines.append("onnxruntime-int8")
    found, shown = run_quickly(tmp_path, engines, ["encoder"])
    (workload,) = found["workloads"]
    assert {row["engine"]: row["failure"] for row in workload["rows"]} == dict.fromkeys(engines, "")
    # Each computes something else, and the report says so.
    for engine in set(engines) - {"pytorch"}:
        assert f"{engine}: result differs from PyTorch's" in shown


def test_an_engine_is_compared_with_those_that_are_as_exact(importable):
    import report

    seconds = {"sam_rlx": 9, "pytorch": 8, "pytorch-bfloat16": 5, "onnxruntime-int8": 4}
    values = (1.0, 1.5, 1.0, 2.5)
    rows = [row(e, [t], [2.0, v]) for (e, t), v in zip(seconds.items(), values, strict=True)]
    for engine, median in (("sam_rlx", 8), ("sam_rlx-bfloat16", 5), ("sam_rlx-int8", 4)):
        assert report.best_rival(engine, rows).median == median
    assert [report.disagreement(r, rows[::-1]) for r in rows] == [0.25, None, 0.25, 0.5]


def rows_of(name, engines):
    """Rows of a workload whose engines run one after the other in this process."""
    pytest.importorskip("support.upstream_sam3", reason="needs sam3")
    import rivals
    from rivals import export
    from rivals.worker import sampled
    from workloads import all_workloads

    workload = all_workloads("tiny", True)[name]
    export.BUILD.mkdir(parents=True, exist_ok=True)
    export.write_weights(workload)
    rows = []
    for engine in engines:
        task = rivals.adapter(engine).prepare(workload, 1)
        result = task.call()
        values = task.sample(result[1] if task.timed else result)
        rows.append(row(engine, [1.0], sampled(values)))
    return rows


@pytest.mark.parity
def test_reduced_precisions_compute_something_else(importable):
    import report

    engines = ["pytorch", "pytorch-bfloat16", "sam_rlx-int8", "sam_rlx-bfloat16"]
    rows = rows_of("encoder", engines)
    for other in rows[1:-1]:
        assert report.disagreement(other, rows) > report.AGREEMENT
    # Integers of 16 bits are closer.
    assert report.disagreement(rows[-1], rows) > report.AGREEMENT / 10


COMPARED = ["decode-1", "everything", "hiera-large", "video-1", "video-3"]
COMPARED += ["sam3-encoder", "sam3-prompts-20"]


@pytest.mark.parity
@pytest.mark.parametrize("name", COMPARED)
def test_ours_finds_what_pytorch_finds(importable, name):
    import report

    rows = rows_of(name, ["pytorch", "sam_rlx"])
    assert len(set(rows[0]["sample"])) > 1 or name == "everything"
    allowed = report.VIDEO_AGREEMENT if name.startswith("video") else report.AGREEMENT
    assert report.disagreement(rows[1], rows) < allowed
    if name == "video-3":  # objects have pasts of their own
        (one,) = rows_of("video-1", ["sam_rlx"])
        assert one["sample"] != rows[1]["sample"]


@pytest.mark.parity
@pytest.mark.parametrize("name", ["sam3-encoder", "sam3-text", "sam3-prompt"])
def test_transformers_finds_what_pytorch_finds(importable, name):
    pytest.importorskip("transformers")
    import report

    rows = rows_of(name, ["pytorch", "transformers"])
    assert len(rows[0]["sample"]) > 1
    assert report.disagreement(rows[1], rows) < report.AGREEMENT


def plain_attention(query, key, value, attn_mask=None, *_, **__):
    """Attention in products that are counted; what it returns does not matter."""
    scores = query @ key.transpose(-2, -1)
    return (scores if attn_mask is None else scores + attn_mask).softmax(-1) @ value


COUNTED = ["hiera-tiny", "memory-attention", "video-1", "video-3"]
COUNTED += ["sam3-encoder", "sam3-text", "sam3-prompt", "sam3-prompts-20"]


@pytest.mark.parity
@pytest.mark.parametrize("name", COUNTED)
def test_arithmetic_is_what_pytorch_counts(importable, monkeypatch, name):
    """The past that is made up fills the memory, too: a frame costs what a steady one does."""
    pytest.importorskip("support.upstream", reason="needs the reference packages")
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from rivals import export, pytorch_eager
    from workloads import all_workloads

    workload = all_workloads("tiny", True)[name]
    export.BUILD.mkdir(parents=True, exist_ok=True)
    export.write_weights(workload)
    task = pytorch_eager.prepare(workload, torch.get_num_threads())
    task.call()
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", plain_attention)
    with FlopCounterMode(display=False) as counter:
        task.call()
    # Heads of a few tokens are left out.
    assert 1e-9 * counter.get_total_flops() == pytest.approx(workload.gflop(), rel=2e-3)


@pytest.mark.parity
@pytest.mark.slow
def test_video_memory():
    shown = script("video_memory.py", *("--frames", "52", "--image-size", "32", "--threads", "1"))
    rows = [line.split(" | ") for line in shown.splitlines() if " MB" in line]
    assert [row[0] for row in rows] == ["| sam_rlx", "| pytorch"]
    for row in rows:
        assert float(row[1].removesuffix(" MB")) > 10


def test_video_memory_with_a_text():
    shown = script("video_memory.py", *("--text", "red circle", "--frames", "3", "--early", "2"))
    assert "what 'red circle' names" in shown
    assert shown.count(" MB |") == 3


@pytest.mark.parity
@pytest.mark.slow
def test_video_parity():
    pytest.importorskip("support.upstream_sam3", reason="needs sam3")
    models = ("--models", "sam2-tiny", "sam3-tiny")
    shown = script("video_parity.py", *models, "--frames", "3", "--size", "150", "212")
    rows = [line.split(" | ") for line in shown.splitlines() if "-tiny |" in line]
    assert [row[:2] for row in rows] == [
        *[["| sam2-tiny", "folder"]] * 2,
        *[["| sam3-tiny", "folder"]] * 2,
        *[["| sam3-tiny", "images"]] * 2,
    ]
    assert all(float(row[3]) >= 0.999 for row in rows)


@pytest.mark.parity
@pytest.mark.slow
def test_text_video():
    shown = script("text_video.py", *("--quick", "--objects", "2", "--warmup", "1"))
    assert shown.count("a frame with 2 objects and 1 frames before it") == 2
    assert "association" in shown
    assert "ratio sam_rlx / pytorch:" in shown


def test_video_memory_refuses_what_it_cannot_do():
    for arguments in (("--frames", "50"), ("--image-size", "100")):
        command = [sys.executable, str(BENCHMARKS / "video_memory.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"{arguments[0]}: expected" in done.stderr


@pytest.mark.parametrize("name", ["bench_layers.py", "bench_models.py"])
def test_own_tables(testing, name):
    shown = script(name, "--variant", "tiny", "--rounds", "1")
    assert shown.count("\n|") >= 6


def test_table_of_kernels(testing):
    shown = script("bench_ops.py", "--kernels", "--isa", "generic")
    for name, size in testing.bench.kernels():
        assert re.search(rf"^{re.escape(f'{name} {size}'.strip())} +G[BF]/s +\d", shown, re.M), name
    missing = set(testing.compiled_isas()) - set(testing.available_isas())
    assert shown.count(": skipped, this processor does not have it") == len(missing)


def test_table_of_ops(importable, capsys, monkeypatch):
    import bench_ops

    tables = {
        "avx2": {
            "peak": (100e9, "FLOP", 1.0),
            "copy": (10e9, "B", 1.0),
            "linear": (60e9, "FLOP", 0.5),
            "gelu": (6e9, "B", 1.0),
        },
        "generic": {},  # failed
        "numpy": {"linear": (60e9, "FLOP", 2.0), "matmul": (1e9, "FLOP", 1.0)},
        "torch": {},  # not installed
    }
    monkeypatch.setattr(bench_ops, "run_apart", lambda name, *_: tables[name])
    bench_ops.report(["avx2", "generic"], 2)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[-4:] == [
        "avx2 numpy",
        "linear GF/s 120.0 60% 30.0 15%",
        "gelu GB/s 6.0 60% -",
        "matmul GF/s - 1.0 0%",
    ]


def test_an_engine_that_fails_leaves_the_others_standing(importable, monkeypatch):
    import client
    import rivals
    from workloads import BUILD, SEED, all_workloads, tiny

    workload = all_workloads("tiny", True)["encoder"]
    BUILD.mkdir(parents=True, exist_ok=True)
    tiny.save_safetensors(workload.ours, tiny.sam_weights(workload.config, SEED))
    monkeypatch.setitem(rivals.ENGINES, "broken", "rivals.sam_rlx")  # its process has no such
    broken, ours = client.interleave(["broken", "sam_rlx"], workload, 1, 1, 0)
    assert broken.failure == "exit code 1: KeyError: 'broken'"
    assert ours.failure == ""
    assert len(ours.seconds) == 1


@pytest.mark.parity
def test_a_file_that_cannot_be_made_leaves_the_others_standing(importable, monkeypatch, tmp_path):
    import workloads
    from rivals import export

    written = []

    def write(workload):
        if workload.family == "sam2":
            raise ModuleNotFoundError("No module named 'sam2'")
        written.append(workload.name)

    monkeypatch.setattr(export, "BUILD", tmp_path)
    monkeypatch.setattr(export, "write_weights", write)
    table = workloads.all_workloads("tiny", True)
    chosen = [table[name] for name in ("encoder", "hiera-tiny", "decode-1")]
    orders = [json.dumps({**workload.to_json(), "onnx": False}) for workload in chosen]
    monkeypatch.setattr(sys, "argv", ["export", *orders])
    with pytest.raises(SystemExit, match="1"):
        export.main()
    assert written == ["encoder", "decode-1"]


def test_run_names_engines_that_are_missing(importable):
    import report

    shown = report.render(
        {
            "machine": {"cpu": "a CPU", "date": "2026-01-01", "commit": "abc", "versions": {}},
            "threads": 2,
            "rounds": 1,
            "quick": False,
            "skipped": {"openvino": "needs openvino"},
            "peak_gflops": 100.0,
            "workloads": [
                {
                    "name": "encoder",
                    "variant": "vit_b",
                    "gflop": 50.0,
                    "about": "",
                    "skipped": {"torch-compile": "needs a compiler"},
                    "rows": [
                        row("sam_rlx", [1.0, 3.0, 2.0], [1.0]),
                        row("pytorch", [4.0], [1.0]),
                        row("onnxruntime", [5.0], [9.0]),
                        {**row("torch-compile", [], []), "failure": "exit code 1: no compiler"},
                    ],
                },
                {
                    "name": "video-1",
                    "variant": "hiera_t",
                    "gflop": 50.0,
                    "about": "One frame.",
                    "skipped": {},
                    "rows": [row("sam_rlx", [1.0], [1.005]), row("pytorch", [4.0], [1.0])],
                },
            ],
        }
    )
    assert "Not measured: openvino, needs openvino." in shown
    assert "| sam_rlx | 2.00 | [1.00, 3.00] | 2.00x | 25 (25 %) | 1.00 GB |" in shown
    assert "| pytorch | 4.00 | [4.00, 4.00] | 1.00x | 12 (12 %) | 1.00 GB |" in shown
    assert "failed: exit code 1: no compiler" in shown
    assert "Not measured: torch-compile, needs a compiler." in shown
    assert "\n\nOne frame.\n\n| engine" in shown
    # Memories in bfloat16 are allowed for.
    assert shown.count("result differs") == 1
    assert "onnxruntime: result differs from PyTorch's by 8.0e+00 of its scale." in shown


def row(engine, seconds, sample):
    return {
        "engine": engine,
        "seconds": seconds,
        "peak_rss": 1_000_000_000,
        "sample": sample,
        "failure": "",
    }


@pytest.mark.parity
def test_roofline(importable):
    import roofline
    from workloads import ENCODERS, all_workloads

    table = all_workloads("vit_b", False)
    for name, most in (*((name, 1.0) for name in ENCODERS), ("sam3-encoder", 1.03)):
        share = 2e-9 * roofline.own(table[name]).products / table[name].gflop()
        assert 0.95 < share < most, name  # SAM 3's images also make what texts share


@pytest.mark.parity
@pytest.mark.slow
def test_table_of_the_roofline():
    shown = script("roofline.py", *("--quick", "--rounds", "1", "--workloads", "hiera-tiny"))
    assert re.search(r"^\| hiera-tiny tiny \|( [\d.]+ \|){7}( \d+ % \|){2}$", shown, re.M), shown


@pytest.mark.parity
@pytest.mark.slow
def test_precision():
    model = BENCHMARKS.parent / "training/checkpoints/sam2-nano.safetensors"
    options = ("--count", "1", "--precisions", "Q8_0", "int8", "--rounds", "1")
    shown = script("precision.py", "--models", str(model), *options)
    for precision in ("Q8_0", "int8", "packaged"):
        name = re.escape(f"| {model.name} | {precision} | ")
        assert len(re.findall(rf"^{name}(?:clicks|boxes) \| \d+ \| 0\.9\d+ \|", shown, re.M)) == 2
        assert re.search(rf"^{name}\d+\.\d \| \d+ \| [\d.]+ \| [\d.]+ \|$", shown, re.M), shown


@pytest.mark.slow
def test_precision_on_a_clip():
    model = BENCHMARKS.parent / "training/checkpoints/sam2-nano.safetensors"
    shown = script("clip_precision.py", *("--count", "1", "--models", str(model)))
    for precision in ("bfloat16", "int8", "packaged"):
        name = re.escape(f"| {model.stem} | {precision} | ")
        assert re.search(rf"^{name}\d+ \| 0\.9\d+ \| 0\.9\d+ \|", shown, re.MULTILINE), shown


def test_buckets(tmp_path):
    """Objects of SAM 3.1 that share a bucket, and one more."""
    plot = tmp_path / "buckets.svg"
    shown = script(
        "buckets.py",
        *("--quick", "--counts", "1", "17", "--frames", "1", "--threads", "1"),
        *("--plot", str(plot)),
    )
    assert re.search(r"^\| 17 \| \d+\.\d{3} \| \d+\.\d{2} \|$", shown, re.MULTILINE)
    assert plot.read_text().startswith("<svg ")
