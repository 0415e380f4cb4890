"""The benchmark commands run and print their tables. Nothing is concluded from the figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = [pytest.mark.bench, pytest.mark.slow]


def script(name, *arguments):
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parity
def test_run_measures_ours_beside_pytorch(tmp_path):
    result = tmp_path / "result.json"
    engines, workloads = ["sam_rlx", "pytorch"], ["encoder", "decode-1", "everything"]
    shown = script(
        "run.py",
        "--quick",
        *("--rounds", "1", "--threads", "1", "--json", str(result)),
        *("--engines", *engines),
        *("--workloads", *workloads),
    )
    found = json.loads(result.read_text())
    assert [w["name"] for w in found["workloads"]] == workloads
    for workload in found["workloads"]:
        assert f"### {workload['name']} (tiny" in shown
        assert sorted(row["engine"] for row in workload["rows"]) == sorted(engines)
        for row in workload["rows"]:
            assert row["failure"] == ""
            assert len(row["seconds"]) == 1
            assert row["peak_rss"] > 10_000_000
    # The engines did the same work on the same weights.
    assert "differs from PyTorch's" not in shown


@pytest.mark.parametrize("name", ["bench_layers.py", "bench_models.py"])
def test_own_tables(testing, name):
    shown = script(name, "--variant", "tiny", "--rounds", "1")
    assert shown.count("\n|") >= 6


def test_run_names_engines_that_are_missing():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import report
    finally:
        sys.path.remove(str(BENCHMARKS))
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
                    "rows": [
                        row("sam_rlx", [1.0, 3.0, 2.0], [1.0]),
                        row("pytorch", [4.0], [1.0]),
                        row("onnxruntime", [5.0], [9.0]),
                        {**row("torch-compile", [], []), "failure": "exit code 1: no compiler"},
                    ],
                }
            ],
        }
    )
    assert "Not measured: openvino, needs openvino." in shown
    assert "| sam_rlx | 2.00 | [1.00, 3.00] | 2.00x | 25 (25 %) | 1.00 GB |" in shown
    assert "| pytorch | 4.00 | [4.00, 4.00] | 1.00x | 12 (12 %) | 1.00 GB |" in shown
    assert "failed: exit code 1: no compiler" in shown
    assert "onnxruntime: result differs from PyTorch's by 8.0e+00 of its scale." in shown


def row(engine, seconds, sample):
    return {
        "engine": engine,
        "seconds": seconds,
        "peak_rss": 1_000_000_000,
        "sample": sample,
        "failure": "",
    }
