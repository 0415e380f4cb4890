"""Time the steps of our predictor that a user waits for, from loading to masks."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import run
from workloads import BUILD, SEED, clicks, embedding, network, sample_image, tiny, weights_path


def checkpoint(variant: str) -> str:
    """Return a random checkpoint of a variant, written if it is not there yet."""
    path, config = weights_path(variant), network(variant)
    if variant == "tiny" or not path.exists():
        path = path.with_suffix(".safetensors")
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        tiny.save_safetensors(path, tiny.sam_weights(config, SEED), config)
    return str(path)


def steps(variant: str, threads: int, isa: str | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    import sam_rlx

    path, config = checkpoint(variant), network(variant)
    yield "load_model", lambda: sam_rlx.load_model(path, isa=isa)
    model = sam_rlx.load_model(path, isa=isa)
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
    image = sample_image(480, 640)
    yield "set_image, 640x480", lambda: predictor.set_image(image)
    predictor.set_image_embedding(embedding(config), (480, 640))
    core = predictor._core
    for count in (1, 64):
        coords, labels = clicks(config, count)
        prompts = (coords % 480, labels)
        yield f"decode, {count} prompts", partial(core.decode, *prompts, None, None, True)
        points = dict(zip(("point_coords", "point_labels"), prompts, strict=True))
        yield f"predict, {count} prompts", partial(predictor.predict, **points)
    generator = sam_rlx.MaskGenerator(model, points_per_side=8, num_threads=threads)
    yield "generate, 8x8 points", lambda: generator.generate(image)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="vit_b", choices=["tiny", *tiny.VARIANTS])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--isa", default=None)
    options = parser.parse_args()
    print(run.heading(f"Steps of {options.variant}", options.threads) + "\n")
    print("| step | ms, median | [min, max] |")
    print("| --- | --- | --- |")
    for name, call in steps(options.variant, options.threads, options.isa):
        call()
        times = []
        for _ in range(options.rounds):
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
        median = statistics.median(times)
        print(f"| {name} | {median:.2f} | [{min(times):.2f}, {max(times):.2f}] |", flush=True)


if __name__ == "__main__":
    main()
