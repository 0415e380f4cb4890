"""Measure every model that a person may choose between: the tables and the plot of a page.

    python benchmarks/which_model.py                               # all but SAM 3 of full size
    python benchmarks/which_model.py --only sam-nano vit_t
    python benchmarks/which_model.py --weights FOLDER              # released files, where they are
    python benchmarks/which_model.py --page docs/which_model.md    # and write them into the page
    python benchmarks/which_model.py --only --page docs/which_model.md         # measure nothing

CPU seconds of the process, an image of 640 x 480: to encode it, for a click on it, and for a frame
of a clip with one object whose memories are full; and the largest memory of a process that encodes
an image and answers a click, in megabytes. Each model runs in float32 and in int8, the fastest
precision, in processes of their own. Models that are not in --weights have random numbers at the
released sizes, which take the same time, and the row says so; those that no random numbers are
made for, such as SAM 3, are left out. Results are kept in build/benchmarks, and --page writes the
list of all models and the results that are there, if each is of a checkout without changes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import sam_rlx
from sam_rlx import _core
from sam_rlx._internal.weights.sources import PACKAGED, find_checkpoint

import client
import resident
import run
from released import random_weights
from tracks import Clip
from workloads import BUILD, sample_image

KEPT = BUILD / "which_model.json"
PRECISIONS = ("float32", "int8")
SIZE = (480, 640)  # height, width
FRAMES, MEMORIES = 10, 7  # of the clip; those before a frame whose memories are full
CLICKS = 5
RELEASED = {row["variant"]: row for row in _core.releases()}  # the newest file of each


class Cost(NamedTuple):
    """CPU seconds, and bytes; `frame` is None for models without videos."""

    image: float
    click: float
    frame: float | None
    memory: int


Costs = dict[str, Cost]  # by precision


class Row(NamedTuple):
    """What is kept of a model."""

    weights: str  # "packaged", "released" or "random"
    costs: Costs
    date: str
    commit: str


def cpu_seconds(call: Callable[[], Any], rounds: int) -> float:
    """Return the median of so many calls, after one that is not counted."""
    call()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return statistics.median(found)


def measure(path: str, precision: str, threads: int, rounds: int) -> Cost:
    """Measure a model in this process."""
    model = sam_rlx.load_model(path, precision=precision)
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
    pixels = sample_image(*SIZE)
    image = cpu_seconds(lambda: predictor.set_image(pixels), rounds)
    point = {"point_coords": [[300, 200]], "point_labels": [1]}
    click = cpu_seconds(lambda: predictor.predict(**point), CLICKS)
    memory = resident.peak()
    if not model.supports_video:
        return Cost(image, click, None, memory)
    video = sam_rlx.VideoPredictor(model, Clip(SIZE, FRAMES), num_threads=threads)
    video.add_prompt(0, 1, box=[200, 100, 400, 300])
    frames, start = [], time.process_time()
    for _ in video.propagate():
        frames.append(time.process_time() - start)
        start = time.process_time()
    return Cost(image, click, statistics.median(frames[MEMORIES:]), memory)


def file_of(name: str, folder: Path | None) -> tuple[str, Path] | None:
    """Return which weights are measured, and their file; None where there are none."""
    if name in PACKAGED:
        return "packaged", find_checkpoint(name)
    if folder is not None and (folder / RELEASED[name]["file"]).exists():
        return "released", folder / RELEASED[name]["file"]
    path = BUILD / f"which_model_{name}.safetensors"
    if not path.exists():
        from safetensors.numpy import save_file

        weights = random_weights(name)
        if weights is None:
            return None
        BUILD.mkdir(parents=True, exist_ok=True)
        save_file(weights, path)
    return "random", path


def costs_of(path: Path, options: argparse.Namespace) -> Costs:
    """Measure a file in each precision, in processes of their own."""
    found = {}
    for precision in PRECISIONS:
        words = ["which_model.py", "--measure", str(path.resolve()), precision]
        words += ["--threads", str(options.threads), "--rounds", str(options.rounds)]
        process = client.python(words, {}, stdout=subprocess.PIPE, text=True)
        shown, _ = process.communicate()
        if process.returncode != 0:
            sys.exit(f"which_model.py: {path} in {precision} could not be measured")
        found[precision] = Cost(*json.loads(shown))
    return found


# ---------------------------------------------------------------- tables


def listed() -> Iterator[tuple[str, ...]]:
    """Yield what there is to choose from: the rows of the releases."""
    yield "model", "what for", "file", "MB", "licence", "where"
    for name in PACKAGED:
        size = find_checkpoint(name).stat().st_size / 1e6
        yield f"`{name}`", "trying it out", "in the package", f"{size:.0f}", "Apache-2.0", ""
    for row in _core.releases():
        page = f"[{row['source'].rpartition('/')[2]}]({row['source']})"
        size = f"{row['bytes'] / 1e6:,.0f}"
        yield f"`{row['variant']}`", row["purpose"], f"`{row['file']}`", size, row["license"], page


def in_both(costs: Costs, tell: Callable[[Cost], str]) -> str:
    return " / ".join(dict.fromkeys(tell(costs[precision]) for precision in PRECISIONS))


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def measured(rows: dict[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield what was measured."""
    yield "model", "weights", "image", "click", "frame", "memory, MB"
    for name, (weights, costs, *_) in rows.items():
        yield (
            f"`{name}`",
            weights,
            in_both(costs, lambda cost: seconds(cost.image)),
            in_both(costs, lambda cost: seconds(cost.click)),
            in_both(costs, lambda cost: seconds(cost.frame)),
            in_both(costs, lambda cost: f"{cost.memory / 1e6:,.0f}"),
        )


def table(rows: Iterator[tuple[str, ...]]) -> str:
    """Return rows as Markdown; the first one is the head."""
    head, *rest = rows
    lines = [head, ("---",) * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def told(kept: dict[str, Any]) -> str:
    """Return what was measured as a table, and where it is from."""
    rows = in_order(kept)
    threads = f"{kept['threads']} thread{'s' * (kept['threads'] > 1)}"
    dates = sorted({row.date for row in rows.values()})
    commits = sorted({row.commit for row in rows.values()})
    source = ", ".join([kept["cpu"], *dates, *commits])
    about = f"CPU seconds in {' / '.join(PRECISIONS)}, {threads}: {source}."
    return f"{about}\n\n{table(measured(rows))}"


def in_order(kept: dict[str, Any]) -> dict[str, Row]:
    """Return what was measured, in the order of the families."""
    rows = {name: Row(*values) for name, values in kept["rows"].items()}
    return {
        name: rows[name]._replace(
            costs={key: Cost(*values) for key, values in rows[name].costs.items()}
        )
        for name in (*PACKAGED, *RELEASED)
        if name in rows
    }


# ---------------------------------------------------------------- plot

LEFT, RIGHT, ROW, BAR = 100, 620, 42, 7  # pixels
COLORS = {"image": ("#1f6f8b", "#7fb8c9"), "frame": ("#b5541c", "#e6ae86")}  # float32, int8
DARK, LINE = "#222", "#ccc"


def plot(rows: dict[str, Row]) -> str:
    """Return bars of the seconds of an image and of a frame, on a logarithmic axis, as SVG."""
    values = [
        value
        for row in rows.values()
        for cost in row.costs.values()
        for value in (cost.image, cost.frame)
        if value is not None
    ]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    bottom = 40 + ROW * len(rows)

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (math.log10(value) - low) / (high - low)

    def text(at: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
        return (
            f'<text x="{at:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{DARK}">{words}</text>'
        )

    def bar(y: float, value: float, color: str) -> str:
        return (
            f'<rect x="{LEFT}" y="{y:.0f}" width="{x(value) - LEFT:.1f}" height="{BAR}" '
            f'fill="{color}"/>'
        )

    shapes = [f'<rect width="680" height="{bottom + 24}" fill="white"/>']
    for power in range(low, high + 1):
        shapes.append(
            f'<path d="M{x(10.0**power):.1f} 34V{bottom}" stroke="{LINE}"/>'
            + text(x(10.0**power), bottom + 16, f"{10.0**power:g} s", "middle")
        )
    for number, (kind, colors) in enumerate(COLORS.items()):
        for shade, precision in enumerate(PRECISIONS):
            at = LEFT + 130 * (2 * number + shade)
            shapes.append(
                f'<rect x="{at}" y="12" width="12" height="12" fill="{colors[shade]}"/>'
                + text(at + 17, 22, f"{kind}, {precision}")
            )
    for index, (name, row) in enumerate(rows.items()):
        top = 40 + ROW * index
        shapes.append(text(LEFT - 8, top + 20, name, "end", 13))
        for number, (kind, colors) in enumerate(COLORS.items()):
            for shade, precision in enumerate(PRECISIONS):
                value = getattr(row.costs[precision], kind)
                if value is not None:
                    shapes.append(bar(top + (BAR + 1) * (2 * number + shade), value, colors[shade]))
    inside = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {bottom + 24}" '
        f'font-family="sans-serif">\n{inside}\n</svg>\n'
    )


# ---------------------------------------------------------------- command


def arguments() -> argparse.Namespace:
    """Read the command line."""
    names = (*PACKAGED, *RELEASED)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="NAME")
    parser.add_argument("--weights", type=Path, help="folder with released files")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="of an image")
    parser.add_argument("--kept", type=Path, default=KEPT, help="file of the results")
    parser.add_argument("--page", type=Path, help="page to write the tables and the plot into")
    parser.add_argument("--measure", nargs=2, metavar=("FILE", "PRECISION"), help="one model alone")
    return parser.parse_args()


def between_marks(page: str, name: str, inside: str) -> str:
    """Return a page with another text between two of its marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{inside}\n\n{end}{rest.partition(end)[2]}"


def write_page(page: Path, kept: dict[str, Any]) -> None:
    """Write the list into a page, and results, if there are some, with the plot beside it."""
    text = between_marks(page.read_text(encoding="utf-8"), "models", table(listed()))
    if kept["rows"]:
        if any(row.commit.endswith("-dirty") for row in in_order(kept).values()):
            sys.exit("which_model.py: --page: expected results of a checkout without changes")
        text = between_marks(text, "costs", told(kept))
        page.with_suffix(".svg").write_text(plot(in_order(kept)), encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def main() -> None:
    options = arguments()
    if options.measure:
        print(json.dumps(measure(*options.measure, options.threads, options.rounds)))
        return
    about = run.machine()
    kept = {"cpu": about["cpu"], "threads": options.threads, "rows": {}}
    if options.kept.exists():
        earlier = json.loads(options.kept.read_text())
        if all(earlier[key] == kept[key] for key in ("cpu", "threads")):
            kept = earlier
    for name in options.only:
        found = file_of(name, options.weights)
        if found is None:
            print(f"{name}: no weights", file=sys.stderr, flush=True)
            continue
        weights, path = found
        row = Row(weights, costs_of(path, options), about["date"], about["commit"])
        kept["rows"][name] = row
        options.kept.parent.mkdir(parents=True, exist_ok=True)
        options.kept.write_text(json.dumps(kept))
        print(f"{name}: {row.costs}", file=sys.stderr, flush=True)
    if kept["rows"]:
        print(told(kept))
    if options.page:
        write_page(options.page, kept)


if __name__ == "__main__":
    main()
