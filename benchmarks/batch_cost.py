"""What many images cost: the model of a batch's time, what it is checked with, and prices.

    python benchmarks/batch_cost.py rate --workers 1 2 4     # real images, beside the model
    python benchmarks/batch_cost.py simulate --actors 64     # a fake encoder of known cost
    python benchmarks/batch_cost.py prices --price 0.03      # core hours and money, as Markdown

The model: N images of c core seconds on W workers with t threads each take

    load + N * c / (W * t * e) + B * c / t

where `load` is the start of a worker, e the part of t threads that one image keeps busy (1 for one
thread), and B the images of a block, since the last block of a worker ends while others are idle.
What sharing out costs is no term: `simulate` shows what it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import sam_rlx
from sam_rlx import io

import workloads

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import batches, tiny, tiny_sam2  # noqa: E402

# Instead of a model: each image takes so many seconds, and no core.
FAKE = """
import os, time
import numpy as np
from sam_rlx.apps.batch import finders, work
class Fake:
    def find(self, item, image):
        with open(os.environ["BATCH_LOG"], "a") as file:
            file.write(f"{time.time()}\\n")
        time.sleep(float(os.environ["BATCH_SECONDS"]))
        return []
finders.make = lambda job, model: Fake()
finders.read_image = lambda item: np.zeros((8, 8, 3), np.uint8)
work.load_model = lambda *arguments, **options: None
"""
# Family, variant and precision of the rows of `prices`.
MODELS = (
    ("sam", "vit_b", "float32"),
    ("sam", "vit_b", "int8"),
    ("sam2", "hiera_l", "float32"),
    ("sam2", "hiera_l", "int8"),
    ("sam2", "hiera_t", "float32"),
    ("sam2", "hiera_t", "int8"),
    ("sam2", "nano", "float32"),
)
BOXES = 10
HW = (1200, 1800)


def predicted(count: int, seconds: float, workers: int, block: int, load: float) -> float:
    """Seconds of a batch by the model, one thread a worker."""
    return load + count * seconds / workers + block * seconds


def _run(words: list[str], out: Path, **env: str) -> list[float]:
    """Run a batch; return its seconds, and those until each new row was there."""
    start = time.monotonic()
    process = batches.started(batches.command(*words, "--output", out), **env)
    batches.wait_for(lambda: (out / "parts").is_dir() and batches.rows_begun(out), process)
    first = time.monotonic() - start
    if process.wait() != 0:
        raise SystemExit(f"a batch ended with exit status {process.returncode}")
    return [time.monotonic() - start, first]


def rate(args: argparse.Namespace) -> None:
    """Real images with several numbers of workers."""
    print("| workers | images a second | times one | seconds | model |")
    print("| --- | --- | --- | --- | --- |")
    one = seconds = load = 0.0
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder, "photos")
        batches.write_images(inputs, args.images, (280, 380))
        for workers in args.workers:
            words = [str(inputs), "--threads", "1", "--workers", str(workers), "--box", "9,9,99,99"]
            words += ["--block", str(args.block), "--engine", args.engine]
            whole, first = _run(words, Path(folder, f"out-{workers}"))
            if not one:
                seconds = (whole - first) / (args.images - 1)
                load = first - seconds
            rate = args.images / (whole - load)
            one = one or rate
            model = predicted(args.images, seconds, workers, args.block, load)
            model -= args.block * seconds if workers == 1 else 0.0
            print(
                f"| {workers} | {rate:.2f} | {rate / one:.2f} | {whole:.1f} | {model:.1f} |",
                flush=True,
            )


def simulate(args: argparse.Namespace) -> None:
    """Many workers that sleep: what sharing out, journals and files cost."""
    count = args.actors * args.each
    with tempfile.TemporaryDirectory() as folder:
        site, inputs = Path(folder, "site"), Path(folder, "photos")
        batches.write_hooks(site, FAKE)
        inputs.mkdir()
        for index in range(count):
            (inputs / f"{index}.jpg").touch()
        words = [str(inputs), "--threads", "1", "--workers", str(args.actors)]
        words += ["--block", str(args.block), "--engine", args.engine]
        log = Path(folder, "log")
        env = {"PYTHONPATH": str(site), "BATCH_SECONDS": str(args.seconds), "BATCH_LOG": str(log)}
        whole, first = _run(words, Path(folder, "out"), **env)
        times = sorted(float(line) for line in log.read_text().split())
    # While all actors work: not while they start, nor while the last ones end.
    middle = times[count // 2 : count * 9 // 10]
    speed = (len(middle) - 1) / (middle[-1] - middle[0])
    print(
        f"{args.engine}, {args.actors} actors, {count} images of {args.seconds:g} s in blocks of "
        f"{args.block}: first row after {first:.1f} s, all after {whole:.1f} s; {speed:.1f} images "
        f"a second while all work, {speed * args.seconds / args.actors:.3f} of what is possible"
    )


def _checkpoint(family: str, variant: str) -> Path:
    """Return random weights, written if they are not there yet: speed does not depend on them."""
    path = workloads.weights_path(variant, family)
    if path.exists():
        return path
    path = path.with_suffix(".safetensors")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if family == "sam":
            config = workloads.network(variant)
            tiny.save_safetensors(path, tiny.sam_weights(config, workloads.SEED), config)
        else:
            trunk = workloads.sam2_network(variant)
            weights = tiny_sam2.weights(trunk, workloads.SEED)
            tiny_sam2.save_safetensors(path, trunk, weights)
    return path


def _core_seconds(family: str, variant: str, precision: str) -> tuple[float, float]:
    """Return core seconds of an image with ten boxes, and in everything mode."""
    if variant == "nano":
        model = sam_rlx.load_model(f"{family}-nano")
    else:
        model = sam_rlx.load_model(_checkpoint(family, variant), precision=precision)
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    image = workloads.sample_image(*HW)
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 600, (BOXES, 2))
    boxes = np.concatenate([corners, corners + 200], axis=1)
    generator = sam_rlx.MaskGenerator(model, num_threads=1)
    encode = prompts = everything = np.inf
    for _ in range(2):
        times = [time.process_time()]
        predictor.set_image(image)
        times.append(time.process_time())
        result = predictor.predict(box=boxes, multimask_output=False)
        for mask in result.masks[:, 0]:
            io.coco_annotation(mask)
        times.append(time.process_time())
        generator.generate(image)
        times.append(time.process_time())
        encode, prompts, everything = np.minimum((encode, prompts, everything), np.diff(times))
    return float(encode + prompts), float(everything)


def prices(args: argparse.Namespace) -> None:
    """Core hours and money for a million and a billion images."""
    print("| model | precision | core seconds an image | 10^6: core hours | money | 10^9: money |")
    print("| --- | --- | --- | --- | --- | --- |")
    for family, variant, precision in MODELS:
        if args.models and variant not in args.models:
            continue
        code = f"import batch_cost as b; print(*b._core_seconds{(family, variant, precision)})"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT / "benchmarks",
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        each, everything = (float(word) for word in done.stdout.split())
        for task, seconds in (("10 boxes", each), ("everything", everything)):
            hours = seconds * 1e6 / 3600
            print(
                f"| {family} {variant}, {task} | {precision} | {seconds:.2f} | {hours:,.0f} | "
                f"{hours * args.price:,.0f} | {1000 * hours * args.price:,.0f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for job in (rate, simulate, prices):
        command = commands.add_parser(job.__name__, help=job.__doc__)
        command.set_defaults(run=job)
        if job is prices:
            command.add_argument("--price", type=float, default=0.03, help="of a core for an hour")
            command.add_argument("--models", nargs="+", help="variants; default: all")
            continue
        command.add_argument("--engine", choices=("local", "ray"), default="local")
        command.add_argument("--block", type=int, default=4)
        if job is rate:
            command.add_argument("--images", type=int, default=64)
            command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
        else:
            command.add_argument("--actors", type=int, default=64)
            command.add_argument("--each", type=int, default=40, help="images for each actor")
            command.add_argument("--seconds", type=float, default=1.0, help="of an image")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
