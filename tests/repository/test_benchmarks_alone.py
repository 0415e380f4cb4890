"""The benchmark commands where PyTorch is not installed."""

import importlib.util
import sys
from pathlib import Path

import pytest
import sam_rlx
from support.cases import quick

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = [pytest.mark.bench, pytest.mark.source_tree]


@pytest.fixture
def without_pytorch(monkeypatch):
    """Let the modules of the benchmarks be imported, and not find PyTorch."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else found(name)
    )


def test_run_prints_its_tables_without_pytorch(without_pytorch, monkeypatch, tmp_path):
    import report
    import run
    import workloads

    monkeypatch.setattr(workloads, "BUILD", tmp_path)
    monkeypatch.setattr(run, "measured_peak", lambda threads: None)
    monkeypatch.setattr(sys, "argv", ["run.py", "--quick", "--workloads", "encoder", "sam3-text"])
    shown = report.render(run.measure(run.arguments()))
    assert "Not measured: pytorch, needs torch" in shown
    files = (
        ("encoder", "sam_tiny_seed2", "safetensors"),
        ("sam3-text", "sam3_tiny_seed2", "PyTorch"),
    )
    for name, file, maker in files:
        assert f"### {name} (tiny" in shown
        reason = f"sam_rlx, needs {tmp_path / file}.safetensors, which is made where {maker}"
        assert f"Not measured: {reason}" in shown


@pytest.mark.parametrize("variant", quick(["tiny", "vit_b"], 0))
@pytest.mark.parametrize("name", ["encoder", "hiera-tiny"])
def test_ours_is_measured_without_pytorch(without_pytorch, monkeypatch, tmp_path, name, variant):
    import workloads
    from rivals import export

    monkeypatch.setattr(workloads, "BUILD", tmp_path)
    workload = workloads.all_workloads(variant, variant == "tiny")[name]
    export.write_weights(workload)
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"]
    assert sam_rlx.load_model(workload.ours).family == workload.family
