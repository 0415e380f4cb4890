"""Whether a row was made of the file that an item names now."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sam_rlx._internal.files import marks
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.parquet import read_bytes, utf8
from sam_rlx.errors import InvalidArgumentError

# Whether `st_ctime` is the time of the last change, which no program can set.
_HAS_CHANGES = os.name == "posix"


def digest(item: Item) -> str:
    """Return the SHA-256 of the contents of an item: of its file, or its bytes in a table."""
    if item.row is not None:
        return hashlib.sha256(read_bytes(item.path, *item.row)).hexdigest()
    return marks.digest(Path(item.path))


def is_of(row: Mapping[str, Any], item: Item) -> bool:
    """Tell whether a row has the number and the name of an item."""
    return (row["index"], utf8(row["item"])) == (item.index, utf8(item.name))


def is_same(item: Item, row: Mapping[str, Any], written_ns: int) -> bool:
    """Tell whether the contents of an item are those that its row was made of.

    A file of the same path that has not changed since the row was written is not read. A file
    that is gone or cannot be read leaves the row as it is.

    Parameters
    ----------
    item : Item
        What is asked for now.
    row : mapping
        Of results.
    written_ns : int
        When the row was written, as in ``st_mtime_ns``; 0 reads the file in any case.
    """
    if row["sha256"] is None:
        return True
    try:
        status = Path(item.path).stat()
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        if _HAS_CHANGES and changed < written_ns and row["path"] == utf8(item.path):
            return True
        return bool(digest(item) == row["sha256"])
    except OSError:
        return True
    except InvalidArgumentError:  # a table without this row
        return False


def folder_of(items: Sequence[Item]) -> str:
    """Return the folder that all files of a plan are below, or an empty text."""
    parents = {os.path.dirname(item.path) for item in items}  # noqa: PTH120  # fast for millions
    try:
        return os.path.commonpath(parents)
    except ValueError:  # several drives
        return ""


def plan_hash(items: Sequence[Item], folder: str) -> str:
    """Return a hash of items and prompts that does not depend on where their folder is."""
    plan = hashlib.sha256()
    start = len(folder.rstrip(os.sep))
    encode = json.JSONEncoder(sort_keys=True).encode
    for item in items:
        plan.update(encode({**item.to_json(), "path": item.path[start:]}).encode())
    return plan.hexdigest()
