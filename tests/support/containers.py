"""A Dockerfile as a list of instructions, for those that have no Docker."""

import json
import re
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction: its word, what follows it, and the stage that it is in, from 0 on."""

    word: str
    text: str
    stage: int

    @property
    def words(self) -> list[str]:
        """The words behind it: of a JSON list its items."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return self.text.split()


def instructions(path: Path) -> list[Instruction]:
    """Return the instructions of a Dockerfile; comments and ends of lines with ``\\`` are gone."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found, stage = [], -1
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, text = line.partition(" ")
        stage += word == "FROM"
        found.append(Instruction(word, text.strip(), stage))
    return found
