"""What these classes refuse, and with which words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from sam_rlx._internal.public import public_names
from sam_rlx.errors import UnsupportedError

WORDS = {
    "training": "these classes run a trained model on the CPU; they cannot train it. Train with "
    "transformers, write the folder with its save_pretrained, and load that folder here.",
    "adapters": "adapters are not applied here. Merge them into the weights with "
    "merge_and_unload, save, and load that folder.",
    "layers": "the layers of the network are not objects here. Use get_image_embeddings, "
    "get_prompt_embeddings and the outputs. To train layers use transformers, write the folder "
    "with its save_pretrained, and load it here.",
    "inner values": "values from inside the network are not kept here.",
    "random": "there are no random weights here. Use from_pretrained.",
    "device": "these classes run on the CPU only.",
}
_NO_MEMORY = (
    "{} has no memory weights: it is a model for images. Use Sam2Model, or a folder of a video "
    "model."
)

# Names of models that only raise. Another missing attribute is an `AttributeError`.
TRAINING = (
    *("gradient_checkpointing_enable", "named_modules", "modules", "children", "apply"),
    *("zero_grad", "state_dict", "get_peft_model", "push_to_hub"),
)
LAYERS = (
    *("mask_decoder", "vision_encoder", "prompt_encoder", "shared_image_embedding"),
    "register_forward_hook",
)


class RefusedError(UnsupportedError):
    """What a program asks of a model that only runs."""


class DeviceRefusedError(RefusedError, AssertionError):
    """Another device than the CPU; PyTorch without it raises `AssertionError`."""


def refuse(code: str, called: str) -> NoReturn:
    """Raise the error of a code for what the program called.

    Parameters
    ----------
    code : {"training", "adapters", "layers", "inner values", "random", "device"}
        What it is about.
    called : str
        Named at the begin of the text, as the program wrote it.

    Raises
    ------
    RefusedError
        Always.
    """
    kind = DeviceRefusedError if code == "device" else RefusedError
    raise kind(f"{called}: {WORDS[code]}")


def refuse_images_in_video(folder: str) -> NoReturn:
    """Raise the error about a folder of an image model that a video model is to be loaded from."""
    raise RefusedError(_NO_MEMORY.format(folder))


def refuse_inner_values(called: str, values: dict[str, Any]) -> None:
    """Raise for an argument about what is inside of the network, unless it is False or None."""
    for name, value in values.items():
        if value is not None and value is not False:
            refuse("inner values", f"{called}({name}=)")


def refusing(code: str, name: str) -> property:
    """Return an attribute that raises when it is read."""

    def get(self: Any) -> NoReturn:
        refuse(code, f"{type(self).__name__}.{name}")

    return property(get, doc=f"Refused: {WORDS[code]}")


def refused_call(code: str, name: str) -> Callable[..., NoReturn]:
    """Return a method that raises when it is called."""

    def call(self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
        refuse(code, f"{type(self).__name__}.{name}")

    call.__name__ = name
    call.__doc__ = f"Refused: {WORDS[code]}"
    return call


@functools.cache
def refused_class(name: str, words: str) -> type:
    """Return a class of upstream's that is known and not here: to use it raises."""

    def raise_(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise RefusedError(f"{name}: {words}")

    members = {"__new__": raise_, "from_pretrained": staticmethod(raise_), "__doc__": words}
    return type(name, (), members)


__dir__ = public_names(__name__)
