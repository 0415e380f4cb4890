"""Write docs/develop/messages.md from the tables of gestures: ``python docs/make_messages.py``."""

from pathlib import Path

from sam_rlx.apps.annotator.gestures import Gesture, table_of
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.keys import keys_of
from sam_rlx.apps.annotator.video_session import VideoSession

TARGET = Path(__file__).parent / "develop" / "messages.md"
HEAD = """# Messages of the annotator

Made by `docs/make_messages.py` from the tables of gestures, which are methods `do_NAME` of the sessions
(`apps/annotator/gestures.py`). A view sends `{type, view, seq, ...}` with the fields of a row; a field with `?` may be left
out. Fields of callers in Python alone are not listed. What comes back stands in `apps/annotator/__init__.py`.
"""


def rows(table: dict[str, Gesture]) -> list[str]:
    """Return the lines of a table."""
    lines = ["| message | fields | keys | what it does |", "| --- | --- | --- | --- |"]
    keys = {row["name"]: [*row["keys"], *row["mouse"]] for row in keys_of(table)}
    for name, row in sorted(table.items()):
        if not row.of_views:
            continue
        fields = [
            f"{field}{'' if field in row.required else '?'}: {check.said}"
            for field, check in row.fields.items()
            if check.of_views
        ]
        shown = ", ".join(f"`{key}`" for key in keys[name])
        lines.append(f"| `{name}` | {'; '.join(fields)} | {shown} | {row.title} |")
    return lines


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, session in (("Images", ImageSession), ("Clips", VideoSession)):
        parts += [f"## {title}", "", *rows(table_of(session)), ""]
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
