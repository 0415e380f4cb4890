"""Write ``messages.md`` from the tables of gestures, as a program: ``python -m`` and its name."""

from pathlib import Path

from sam_rlx.apps.annotator.gestures import messages_text
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.video_session import VideoSession


def main() -> None:
    """Write the page beside this module."""
    tables = {"image": ImageSession.gestures, "clip": VideoSession.gestures}
    Path(__file__).with_suffix(".md").write_text(messages_text(tables), "utf-8")


if __name__ == "__main__":
    main()
