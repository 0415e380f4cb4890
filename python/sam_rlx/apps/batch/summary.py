"""What a batch will do, in one line."""

from collections.abc import Sequence
from pathlib import Path

from sam_rlx._internal.weights.sources import packaged_name
from sam_rlx.apps.batch.items import Item, Prompt
from sam_rlx.apps.batch.job import Job

_MAX_TEXT = 60


def first_line(job: Job, items: Sequence[Item]) -> str:
    """Return number, task, model and first prompt: ``501 images, boxes, sam2-nano``."""
    clips = sum(item.is_clip for item in items)
    numbers = ((len(items) - clips, "image"), (clips, "clip"))
    counted = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in numbers if count]
    counted = counted or ["0 images"]
    model = Path(job.model)
    words = [" and ".join(counted), _task(job, items), packaged_name(model) or model.name]
    return ", ".join(words) + _first(job, items)


def _task(job: Job, items: Sequence[Item]) -> str:
    if job.task == "everything":
        return "everything"
    if job.task == "text":
        return "texts and examples" if job.examples else "texts"
    prompts = [prompt for item in items for prompt in item.prompts or ()]
    kinds = (any(prompt.points for prompt in prompts), any(prompt.box for prompt in prompts))
    found = [name for name, there in zip(("points", "boxes"), kinds, strict=True) if there]
    return " and ".join(found) or "no prompts"


def _first(job: Job, items: Sequence[Item]) -> str:
    if job.task == "text":
        texts = next((item.texts for item in items if item.texts), job.texts)
        return f"; first text: {texts[0][:_MAX_TEXT]!r}" if texts else ""
    for item in items:
        if item.prompts:
            return f"; first prompt: {item.name}: {_described(item.prompts[0])}"
    return ""


def _described(prompt: Prompt) -> str:
    words = [f"point {x:g},{y:g}" for x, y in prompt.points[:1]]
    if len(prompt.points) > 1:
        words[0] += f" and {len(prompt.points) - 1} more"
    if prompt.box is not None:
        words.append("box " + ",".join(f"{side:g}" for side in prompt.box))
    return f"{prompt.name}: {', '.join(words)}"
