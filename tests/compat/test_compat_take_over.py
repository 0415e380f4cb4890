"""Programs that run on the drop-ins without a changed line."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import sam_rlx
from sam_rlx.apps.cli import main
from sam_rlx.compat import install

PROGRAM = """
import multiprocessing, subprocess, sys

CHILD = "import sam2.build_sam as b, sam3.model.data_misc as d; print(b.__name__, d.FindStage)"


def child(queue):
    import sam2.build_sam
    queue.put(sam2.build_sam.__name__)


if __name__ == "__main__":
    import sam2
    import sam2.build_sam
    import segment_anything
    import sam_rlx.compat.sam2
    assert sam_rlx.compat.sam2 is sam2
    assert sam_rlx.compat.sam2.build_sam is sam2.build_sam
    assert sam2.__spec__.name == "sam_rlx.compat.sam2"
    assert "torch" not in sys.modules
    print(sys.argv[1:])
    sam = segment_anything.sam_model_registry["nano"]().to("cuda")
    sam.to(device="mps")
    print(subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True).stdout)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get(timeout=90))
    process.join(90)
"""


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "sam_rlx.compat", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=170, check=False, cwd=cwd
    )


def test_a_program_and_its_children(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = run(program, "--some", "argument")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.split("\n")
    assert lines[0] == "['--some', 'argument']"
    assert lines[1].startswith("sam_rlx.compat.sam2.build_sam <class 'sam3.model.data_misc.FindSt")
    assert lines[3] == "sam_rlx.compat.sam2.build_sam"
    assert found.stderr.count("sam_rlx computes on the CPU") == 1


def test_code_and_modules(tmp_path):
    found = run("-c", "import sam3, sys; print(sam3.__name__, sys.argv)", "x")
    assert found.stdout == "sam_rlx.compat.sam3 ['-c', 'x']\n", found.stderr
    (tmp_path / "own.py").write_text("import sam2, sys; print(sam2.__name__, sys.argv[1:])")
    found = run("-m", "own", "x", cwd=tmp_path)
    assert found.stdout == "sam_rlx.compat.sam2 ['x']\n", found.stderr
    assert "sam_rlx.compat.sam2, instead of" in run("--list").stdout
    assert run("-c").returncode == 1


def test_notebooks():
    code = "import sam_rlx.compat as c; c.install('sam2'); import sam2; print(sam2.__name__)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert found.stdout == "sam_rlx.compat.sam2\n", found.stderr


def test_names_that_are_imported_already(monkeypatch):
    monkeypatch.setitem(sys.modules, "sam2", sys)
    with pytest.raises(sam_rlx.StateError, match="import of sam2"):
        install("sam2")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected names of"):
        install("sam4")


def test_the_command_lists_what_is_installed(capsys):
    main(["info", "--json"])
    folders = json.loads(capsys.readouterr().out)["drop_ins"]
    names = ["segment_anything", "segment_anything_hq", "sam2", "sam3"]
    names += ["ultralytics", "transformers"]
    assert list(folders) == names
    for name, folder in folders.items():
        spec = importlib.util.find_spec(name)
        assert folder == (None if spec is None else str(Path(spec.origin).parent))


def test_an_installed_transformers_gets_our_names_and_keeps_the_others():
    pytest.importorskip("transformers", minversion="5")
    program = """
import sam_rlx.compat
sam_rlx.compat.install("transformers")
import transformers
from transformers.models.sam.modeling_sam import SamModel
from transformers import AutoModel, BertConfig
from sam_rlx.compat.transformers.installed import of_installed
assert SamModel is transformers.SamModel is sam_rlx.compat.transformers.SamModel
assert AutoModel is sam_rlx.compat.transformers.AutoModel
assert BertConfig.__module__.startswith("transformers.")
assert of_installed("AutoModel").__module__.startswith("transformers.")
assert transformers.AutoModel is AutoModel
"""
    subprocess.run([sys.executable, "-c", program], check=True)
