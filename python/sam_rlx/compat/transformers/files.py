"""Files of settings, as transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sam_rlx._internal.public import public_names


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write settings as transformers does."""
    path.write_text(as_json(settings), encoding="utf-8")


def as_json(settings: dict[str, Any]) -> str:
    """Return settings as transformers writes them."""
    return json.dumps(settings, indent=2, sort_keys=True, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else dict(value)


__dir__ = public_names(__name__)
