"""The parameters of a model by transformers' names."""

from __future__ import annotations

import functools

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.descriptions import Parameter
from sam_rlx.compat.transformers.refusals import refuse

# Ends of names that are no parameters upstream but buffers.
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
_ENCODING = "positional_embedding"
# One parameter under two names: upstream tells the second.
_COPIES = (f"prompt_encoder.shared_embedding.{_ENCODING}", f"shared_image_embedding.{_ENCODING}")


def parameters_of(path: str, is_sam: bool, frozen: set[str]) -> list[tuple[str, Parameter]]:
    """Return the parameters of a file by name, in the order of the file.

    Parameters
    ----------
    path : str
        The file or folder of the weights.
    is_sam : bool
        Whether the encoding of points is a parameter: of SAM and SAM-HQ.
    frozen : set of str
        Names of those that the program has frozen; more are added as it freezes them.
    """
    found = []
    stop = functools.partial(refuse, "training")
    tensors = _core.list_tensors(path)
    has_both = {name for name, *_ in tensors}.issuperset(_COPIES)
    for name, _, shape in tensors:
        if has_both and name == _COPIES[0]:
            continue
        if name.endswith(_BUFFERS) or (name.endswith(_ENCODING) and not is_sam):
            continue
        found.append((name, Parameter(name, tuple(shape), frozen, stop)))
    return found


__dir__ = public_names(__name__)
