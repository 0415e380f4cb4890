"""The JSON Schema (draft 2020-12) of the files that a parity report is written to."""

from typing import Any

FORMAT = "sam_rlx.parity.1"

_COUNT = {"type": "integer", "minimum": 0}
_SIZE = {"type": "number", "minimum": 0}
_PERHAPS = {"type": ["number", "null"], "minimum": 0}
_TEXT = {"type": "string"}


def _object(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# Of null: a figure that does not apply, such as the score of masks that have none.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "sam_rlx.parity.Report",
    **_object(
        format={"const": FORMAT},
        checkpoint=_TEXT,
        family={"enum": ["sam", "sam2", "sam3"]},
        variant=_TEXT,
        reference=_TEXT,
        precision=_TEXT,
        exact={"type": "boolean"},
        same={"type": "boolean"},
        verdict=_TEXT,
        first_difference={"type": ["string", "null"]},
        notes={"type": "array", "items": _TEXT},
        layers={
            "type": "array",
            "items": _object(
                stage=_TEXT,
                path=_TEXT,
                max_abs=_PERHAPS,
                relative=_PERHAPS,
                cosine={"type": ["number", "null"], "minimum": -1.000001, "maximum": 1.000001},
                reference_error=_PERHAPS,
                allowed=_PERHAPS,
                same={"type": "boolean"},
            ),
        },
        skipped={"type": "array", "items": _TEXT},
        masks={
            "type": "array",
            "items": _object(
                stage=_TEXT,
                item=_TEXT,
                count=_COUNT,
                reference_count=_COUNT,
                iou={**_SIZE, "maximum": 1},
                score=_PERHAPS,
                same={"type": "boolean"},
            ),
        },
    ),
}
