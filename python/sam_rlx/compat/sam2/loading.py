"""Checkpoints of SAM 2 with the settings of a config."""

from __future__ import annotations

import json
import os
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.weights.sources import find_checkpoint
from sam_rlx.compat.sam2.config_file import ModelSettings
from sam_rlx.errors import CheckpointError, UnsupportedError
from sam_rlx.model import Model


def load_checkpoint(settings: ModelSettings, ckpt_path: str | os.PathLike[str] | None) -> Model:
    """Load a SAM 2 checkpoint with the settings of a config.

    Raises
    ------
    CheckpointError
        The config is of another variant, version or size than the checkpoint.
    UnsupportedError
        There is no checkpoint: random weights are not offered.
    """
    if ckpt_path is None:
        raise UnsupportedError("build_sam2: expected a checkpoint, found None (no random weights)")
    where = os.fspath(ckpt_path)
    path = str(find_checkpoint(ckpt_path))
    fields = json.dumps({"family": "sam2", **settings.fields})
    arguments: dict[str, Any] = {"image_size": settings.image_size, "fields": fields}
    model = Model(_core.load_model(path, **arguments), path, arguments)
    if settings.variant and (settings.variant, settings.version) != (model.variant, model.version):
        raise CheckpointError(
            f"{where}: expected {settings.variant} of SAM {settings.version} as in the config, "
            f"found {model.variant} of SAM {model.version}"
        )
    settings.compare(model.config, where)
    return model
