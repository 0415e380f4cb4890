"""Train the tracker of `sam3-nano` in resumable stages, on the image encoder of its detector."""

from __future__ import annotations

import os
import time
from pathlib import Path

from training import export
from training.clips import LIVELY
from training.engines import TRAINED
from training.images import image_loss
from training.named_clips import NamedClips
from training.runs import Run, Team
from training.sam3 import TRACKING, Sam3, Sam3Video, on_detector
from training.texts import text_maker
from training.tracks import Habits, clip_loss
from training.train_sam2 import Lesson, Phase, Stage, arguments, carry_on, set_up, train

DETECTOR = TRAINED / "sam3-nano.safetensors"
TEXTURES = 400
HABITS = Habits(mask=0.4, rough=0.7)
"""Objects of a text are followed from the detector's masks."""
PLANS = {
    # One size, so that all is compiled once; 56 frames are what is encoded at a time.
    "new": (Phase(0.3, 384, 32, 7, 8, 0.15), Phase(9.99, 384, 32, 7, 8, 0.6)),
    # For less memory.
    "small": (Phase(0.3, 384, 16, 4, 8, 0.15), Phase(9.99, 384, 16, 4, 8, 0.6)),
    # To try the program.
    "tiny": (Phase(9.99, 384, 1, 1, 3, 0.5),),
}


class NamedStage(Stage):
    """Images and clips of named objects, for a model with a detector and a tracker."""

    def lessons_of(self, phase: Phase) -> dict[str, Lesson]:
        """Lessons on images and on clips."""
        clips, gen, side = self.clips, self.clips.scenes.gen, phase.side
        return {
            "images": Lesson(
                self.run,
                lambda: clips.images(phase.scenes, side),
                lambda model, scenes: image_loss(model.tracker, scenes, gen),
                self.capture,
            ),
            "clips": Lesson(
                self.run,
                lambda: clips.make(phase.clips, phase.frames, side),
                lambda model, made: clip_loss(model.tracker, made, gen, HABITS),
                self.capture,
            ),
        }


def _detector(path: Path) -> Sam3:
    model = export.load(path)
    return model.detector if isinstance(model, Sam3Video) else model


def main() -> None:
    """Run one stage."""
    parser = arguments(tuple(PLANS))
    parser.description = __doc__
    parser.add_argument("--detector", type=Path, default=DETECTOR, help="what to build on")
    args = parser.parse_args()
    entered = time.time()
    set_up(args)
    model = on_detector(TRACKING, _detector(args.detector))
    run = Run(model, args.rate, args.total_seconds, Team())
    carry_on(run, args)
    workers = max((os.cpu_count() or 1) // run.team.size, 1)
    seed = args.seed + 1000 * (run.step + 1) + run.team.rank
    named = text_maker(run.device, seed, args.shapes, TEXTURES, workers)
    capture = args.graphs and run.device.type == "cuda"
    train(NamedStage(run, NamedClips(named, LIVELY), capture), PLANS[args.plan], args, entered)


if __name__ == "__main__":
    main()
