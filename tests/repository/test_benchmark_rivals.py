"""What an engine of the benchmarks is compared with, and the rivals in reduced precision."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import HANG_SECONDS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = [pytest.mark.bench, pytest.mark.source_tree]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let the modules of the benchmarks be imported."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def row(engine, seconds, failure=""):
    return {
        "engine": engine,
        "seconds": seconds,
        "peak_rss": 1_500_000_000,
        "sample": [],
        "failure": failure,
    }


def result(rows, lacking=None):
    """One workload as `run.py` writes it."""
    workload = {
        "name": "encoder",
        "variant": "vit_b",
        "gflop": 50.0,
        "about": "",
        "skipped": lacking or {},
        "rows": rows,
    }
    return {
        "machine": {"cpu": "a CPU", "date": "2026-01-02", "commit": "abc", "versions": {}},
        "threads": 2,
        "rounds": 3,
        "quick": False,
        "skipped": {},
        "peak_gflops": None,
        "workloads": [workload],
    }


ROWS = [
    row("sam_rlx", [4.0, 5.0, 3.0]),
    row("sam_rlx-bfloat16", [2.0]),
    row("sam_rlx-int8", [1.5]),
    row("pytorch", [10.0]),
    row("openvino", [8.0]),
    row("onnxruntime-int8", [4.0]),
    row("openvino-bfloat16", [2.5]),
    row("openvino-int8", [], failure="exit code 1"),
]


@pytest.mark.parametrize(
    ("engine", "rival"),
    [
        ("sam_rlx", "openvino"),
        ("sam_rlx-bfloat16", "openvino-bfloat16"),
        # A rival with more bits that is faster than all with as few is the one to beat.
        ("sam_rlx-int8", "openvino-bfloat16"),
    ],
)
def test_the_rival_is_the_fastest_of_equal_or_higher_precision(engine, rival):
    import report

    found = report.best_rival(engine, ROWS)
    assert found is not None
    assert found.engine == rival


def test_float32_alone_is_compared_with_float32_alone():
    import report

    rows = [row("sam_rlx", [1.0]), row("openvino-bfloat16", [1.0]), row("sam_rlx-int8", [0.5])]
    assert report.best_rival("sam_rlx", rows) is None


def test_ratios_have_a_row_for_each_precision():
    import report

    assert report.ratios(result(ROWS)).splitlines()[2:] == [
        "| workload | precision | sam_rlx | strongest rival | ratio | peak memory of sam_rlx |",
        "| --- | --- | --- | --- | --- | --- |",
        "| encoder (vit_b) | float32 | 4.00 s | 8.00 s (openvino) | 0.50 | 1.50 GB |",
        "| encoder (vit_b) | bfloat16 | 2.00 s | 2.50 s (openvino-bfloat16) | 0.80 | 1.50 GB |",
        "| encoder (vit_b) | int8 | 1.50 s | 2.50 s (openvino-bfloat16) | 0.60 | 1.50 GB |",
    ]


def test_ratios_without_a_rival_are_empty():
    import report

    lines = report.ratios(result([row("sam_rlx", [0.25]), row("pytorch", [], "no"), ROWS[5]]))
    assert lines.splitlines()[-1] == "| encoder (vit_b) | float32 | 0.2500 s | - | - | 1.50 GB |"


def test_every_table_names_machine_date_and_commit():
    import report

    shown = report.render(result(ROWS))
    headings = [line for line in shown.splitlines() if line.startswith("### ")]
    assert headings == [
        "### Ratios: a CPU, 2 threads, 2026-01-02, commit abc",
        "### encoder (vit_b, 50.0 GFLOP): a CPU, 2 threads, 2026-01-02, commit abc",
    ]


@pytest.mark.parametrize("engine", ["openvino-bfloat16", "openvino-int8"])
def test_missing_packages_are_named(monkeypatch, engine):
    import run

    found = importlib.util.find_spec
    absent = {"openvino", "nncf"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in absent else found(name)
    )
    ready, skipped = run.installed([engine])
    assert ready == []
    named = skipped[engine].removeprefix("needs ").split(", ")
    assert set(named) >= (absent if engine == "openvino-int8" else {"openvino"})


def test_what_a_processor_cannot_do_is_no_failure(monkeypatch):
    """An engine that the processor cannot run is named with its reason, and has no row."""
    import client
    import rivals
    import run
    from workloads import all_workloads

    def interleave(engines, *_):
        return [
            client.Measurement("sam_rlx", [1.0]),
            client.Measurement("openvino-bfloat16", unable="needs a processor with bfloat16"),
        ]

    monkeypatch.setattr(client, "interleave", interleave)
    monkeypatch.setattr(run, "write_files", lambda *_: None)
    monkeypatch.setattr(run, "measured_peak", lambda _: None)
    monkeypatch.setattr(run, "able_engines", lambda engines, _: (engines, {}))
    monkeypatch.setattr(rivals, "missing_packages", lambda *_: [])
    monkeypatch.setattr(sys, "argv", ["run.py", "--quick", "--workloads", "encoder"])
    assert "encoder" in all_workloads("tiny", True)
    (workload,) = run.measure(run.arguments())["workloads"]
    assert [r["engine"] for r in workload["rows"]] == ["sam_rlx"]
    assert workload["skipped"] == {"openvino-bfloat16": "needs a processor with bfloat16"}


def test_a_worker_tells_what_it_cannot_run(monkeypatch):
    import rivals
    from rivals import worker
    from workloads import all_workloads

    def prepare(workload, threads):
        raise rivals.UnableError("needs a processor with bfloat16")

    one = worker.Worker("openvino-bfloat16")
    monkeypatch.setattr(one.adapter, "prepare", prepare)
    answer = one.prepare(all_workloads("tiny", True)["encoder"].to_json(), 1)
    assert answer == {"unable": "needs a processor with bfloat16"}


@pytest.mark.parity
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["encoder", "hiera-tiny"])
def test_openvino_runs_in_reduced_precision(tmp_path, workload):
    for name in ("openvino", "onnx", "nncf", "segment_anything", "sam2"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    engines = ["pytorch", "openvino", "openvino-bfloat16", "openvino-int8"]
    file = tmp_path / "result.json"
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick", "--threads", "1"]
    command += ["--rounds", "1", "--json", str(file), "--workloads", workload]
    done = subprocess.run(
        [*command, "--engines", *engines],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(file.read_text())["workloads"]
    unable = found["skipped"]
    assert set(unable) <= {"openvino-bfloat16"}
    assert [r["engine"] for r in found["rows"]] == [e for e in engines if e not in unable]
    # Each computes something else than float32: the report says so.
    assert "openvino: result differs" not in done.stdout
    for engine in set(engines[2:]) - set(unable):
        assert f"{engine}: result differs from PyTorch's" in done.stdout


def test_rows_of_light_models_name_engines_that_run_them():
    import light_models
    import rivals
    from workloads import LIGHT, light_workloads

    rows = {name: engines for group in light_models.GROUPS for name, engines in group.items()}
    assert set(rows) == {*LIGHT, light_models.VIDEO}
    for name, engines in rows.items():
        for engine in engines:
            assert name in rivals.adapter(engine).WORKLOADS, engine
    for workload in light_workloads().values():
        assert workload.side == 1024
        assert workload.gflop() == 0


def test_engines_of_several_workloads_alternate(monkeypatch):
    import client
    from workloads import light_workloads

    calls = []

    class Worker:
        def __init__(self, engine, workload, threads):
            self.name = f"{engine} {workload.name} {threads}"

        def __exit__(self, *_):
            calls.append(f"end of {self.name}")

        def prepare(self):
            return 0.5

        def run(self):
            calls.append(self.name)
            return float(len(calls))

        def finish(self):
            return 7, [1.0]

    monkeypatch.setattr(client, "Worker", Worker)
    monkeypatch.setattr(client, "SETTLE_S", 0)
    table = light_workloads()
    pairs = [("sam_rlx", table["edgetam"]), ("sam_rlx", table["sam-hq"])]
    rows = client.interleave_pairs(pairs, threads=2, rounds=2, warmup=1)
    names = ["sam_rlx edgetam 2", "sam_rlx sam-hq 2"]
    assert calls == [*names * 3, *(f"end of {name}" for name in names)]
    assert [row.seconds for row in rows] == [[3.0, 5.0], [4.0, 6.0]]
    assert [(row.engine, row.peak_rss) for row in rows] == [("sam_rlx", 7)] * 2
