"""Checkpoints of SAM 2 with the settings of a config."""

from __future__ import annotations

import json
import os
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.weights.sources import find_checkpoint
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.sam2.config_file import ModelSettings
from sam_rlx.errors import CheckpointError, UnsupportedError
from sam_rlx.model import Model

IMAGE_SIZE = 1024  # of every release


def load_checkpoint(
    settings: ModelSettings, ckpt_path: str | os.PathLike[str] | None
) -> Model | EmptyModel:
    """Load a SAM 2 checkpoint with the settings of a config.

    Raises
    ------
    CheckpointError
        The config is of another variant, version or size than the checkpoint.
    UnsupportedError
        There is neither a checkpoint nor a config of a release.
    """
    if ckpt_path is None:
        if settings.variant is None:
            raise UnsupportedError(
                "build_sam2: expected a checkpoint, or a config of a release for load_state_dict, "
                "found neither (no random weights)"
            )
        return EmptyModel("sam2", settings.variant, settings.image_size or IMAGE_SIZE)
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
