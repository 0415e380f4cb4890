"""What all models have in common: how they are loaded, and what programs ask of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from sam_rlx._internal.printable import with_model
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common import descriptions
from sam_rlx.compat.common.state_dicts import LoadResult
from sam_rlx.compat.common.turns import Turns
from sam_rlx.compat.transformers import refusals, weights
from sam_rlx.compat.transformers.configs import PretrainedConfig
from sam_rlx.compat.transformers.descriptions import parameters_of
from sam_rlx.compat.transformers.options import LoadOptions
from sam_rlx.compat.transformers.targets import is_dtype, precision_of, require_cpu
from sam_rlx.model import Model


class PreTrainedModel:
    """A network that runs on the CPU. Made by `from_pretrained`.

    Attributes
    ----------
    training : bool
        Always False.
    config : PretrainedConfig
        Its settings.
    name_or_path : str
        Where it was loaded from.
    """

    config_class: ClassVar[type[PretrainedConfig]] = PretrainedConfig
    base_model_prefix: ClassVar[str] = ""
    main_input_name: ClassVar[str] = "pixel_values"
    # Kinds of settings whose folders the class takes: its own first.
    kinds: ClassVar[tuple[str, ...]] = ()
    # Kinds of folders that lack a part of the class, which upstream makes up.
    kinds_in_part: ClassVar[tuple[str, ...]] = ()
    # Arguments of from_pretrained that a class has of its own, given to `_loaded`.
    own_options: ClassVar[tuple[str, ...]] = ()
    training: ClassVar[bool] = False
    # Whether the core gets images, and not what a processor has made of them: then the folder's
    # settings of images have to be those of the network.
    takes_images: ClassVar[bool] = True

    config: Any
    name_or_path: str
    # Of sam_rlx.
    model: Model
    _turns: Turns
    # What the weights were loaded from, and values of `load_state_dict` that replace some.
    _first: Model
    _values: dict[str, Any]
    # Names of parameters that the program has frozen.
    _frozen: set[str]

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        refusals.refuse("random", type(self).__name__)

    # ---------------------------------------------------------------- loading

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *model_args: Any,
        config: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Load a model.

        Parameters
        ----------
        pretrained_model_name_or_path : str or path
            A folder that ``save_pretrained`` or ``sam-rlx convert`` wrote, a hub id, a file of
            weights, or the name of a packaged model.
        *model_args
            Without effect.
        config : PretrainedConfig, optional
            Settings instead of those of the folder.
        **kwargs
            ``cache_dir``, ``revision``, ``token``, ``local_files_only``, ``subfolder``; ``dtype``
            (or ``torch_dtype``): the type of the large weights, float32 or bfloat16; results are
            float32. ``output_loading_info``. Settings by name. ``precision``, of `load_model`.
            What upstream needs for other devices and kernels has no effect.

        Returns
        -------
        PreTrainedModel
            Of this class; with ``output_loading_info=True`` a tuple of it and a dict.

        Raises
        ------
        OSError
            There is no such folder, file or repository, or it has no weights or settings.
        CheckpointError
            The weights are damaged, or are those of another class.
        RefusedError
            A folder of an adapter, another device, quantization.
        TypeError
            Another argument.
        """
        called = f"{cls.__name__}.from_pretrained"
        options = LoadOptions.read(called, kwargs)
        found = weights.find(cls, pretrained_model_name_or_path, config, options)
        rules = cls.rules(found.config)
        model = found.load(rules, options.precision, cls.takes_images)
        made = cls._of(model, found.config)
        made.name_or_path = str(pretrained_model_name_or_path)
        made._loaded(options)
        return (made, weights.loading_info(made.model)) if options.output_loading_info else made

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return where the network differs from Meta's: `_core.load_model`'s rules."""
        raise NotImplementedError

    @classmethod
    def _of(cls, model: Model, config: Any) -> Self:
        made = cls.__new__(cls)
        made.config, made.name_or_path = config, model.source
        made._turns, made._first, made._values, made._frozen = Turns(), model, {}, set()
        made._adopt(model)
        return made

    def _adopt(self, model: Model) -> None:
        """Take weights: what runs them is made for them."""
        self.model = model

    def _loaded(self, options: LoadOptions) -> None:
        """Do what a class does once it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.model, self.config, self.name_or_path)

    def __repr__(self) -> str:
        return with_model(self, self.model)

    def save_pretrained(self, save_directory: str | os.PathLike[str], **_kwargs: Any) -> None:
        """Write the folder that the model was loaded from, or its file as such a folder.

        Parameters
        ----------
        save_directory : str or path
            Is made.
        **_kwargs
            Without effect.
        """
        weights.save(self._first, self.config, Path(save_directory))

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadResult:
        """Build the network again from its file with these values.

        Parameters
        ----------
        state_dict : dict of str to array or tensor
            By upstream's names.
        strict : bool
            Whether all names must be there, and no others. With False the others keep their values.
        assign : bool
            Without effect.

        Returns
        -------
        LoadResult
            Names that are missing and that the network lacks.

        Raises
        ------
        RuntimeError
            Names or shapes do not fit.
        """
        precision = self.model.precision if self.model.precision != "float32" else None
        values = dict(self._values)
        result = weights.checked_values(self._first.source, dict(state_dict), values, bool(strict))
        self._adopt(weights.with_values(self._first, values, precision))
        self._values = values
        return result

    # ---------------------------------------------------------------- what it is

    @property
    def dtype(self) -> Any:
        """Always float32: what the results are."""
        return descriptions.dtype()

    @property
    def device(self) -> Any:
        """Always the CPU."""
        return descriptions.device()

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """Return how many numbers the parameters have, or those that are not frozen."""
        wanted = (x for x in self.parameters() if x.requires_grad or not only_trainable)
        return sum(each.numel() for each in wanted)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, descriptions.Parameter]]:
        """Yield names and descriptions of the parameters, which cannot be changed."""
        begin = f"{prefix}." if prefix else ""
        is_sam = self.model.family == "sam"
        for name, each in parameters_of(self._first.source, is_sam, self._frozen):
            yield begin + name, each

    def parameters(self, recurse: bool = True) -> Iterator[descriptions.Parameter]:
        """Yield descriptions of the parameters, which cannot be changed."""
        for _, each in self.named_parameters():
            yield each

    # ---------------------------------------------------------------- where it runs, and how

    def to(self, *targets: Any, device: Any = None, dtype: Any = None, **_: Any) -> Self:
        """Return the model; bfloat16 loads its large weights again as that.

        Parameters
        ----------
        *targets
            A device, a type of floating point, or both.
        device, dtype
            The same by name.
        **_
            Without effect.

        Raises
        ------
        RefusedError
            Another device than the CPU.
        """
        for target in (*targets, device, dtype):
            if target is None or isinstance(target, bool):
                continue
            if is_dtype(target):
                self._set_precision(precision_of(f"{type(self).__name__}.to", target))
            else:
                require_cpu(f"{type(self).__name__}.to({str(target)!r})", target)
        return self

    def _set_precision(self, precision: str | None) -> None:
        if precision is not None and precision != self.model.precision:
            self._adopt(weights.with_values(self._first, self._values, precision))

    def cpu(self) -> Self:
        """Return the model."""
        return self

    def cuda(self, *_args: Any, **_kwargs: Any) -> Self:
        """Refuse another device."""
        require_cpu(f"{type(self).__name__}.cuda()", "cuda")
        return self

    def float(self) -> Self:
        """Return the model: its results are float32."""
        return self

    def bfloat16(self) -> Self:
        """Load the large weights again as bfloat16."""
        return self.to(dtype="bfloat16")

    def half(self) -> Self:
        """Refuse float16, which is no type of weights here."""
        raise refusals.RefusedError(
            f"{type(self).__name__}.half: expected float32 or bfloat16, found float16, which is no "
            "type of weights here; a file of it is loaded as float32"
        )

    def eval(self) -> Self:
        """Return the model: it is always ready to run."""
        return self

    def train(self, mode: bool = True) -> Self:
        """Return the model for False; training is refused."""
        if mode:
            refusals.refuse("training", f"{type(self).__name__}.train")
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze all parameters; gradients are refused. Returns the model."""
        if requires_grad:
            refusals.refuse("training", f"{type(self).__name__}.requires_grad_")
        for each in self.parameters():
            each.requires_grad_(False)
        return self

    def load_adapter(self, *_args: Any, **_kwargs: Any) -> None:
        """Refuse an adapter."""
        refusals.refuse("adapters", f"{type(self).__name__}.load_adapter")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do as `forward`."""
        return self.forward(*args, **kwargs)


for _name in refusals.TRAINING:
    setattr(PreTrainedModel, _name, refusals.refused_call("training", _name))
for _name in refusals.LAYERS[:-1]:
    setattr(PreTrainedModel, _name, refusals.refusing("layers", _name))
setattr(PreTrainedModel, refusals.LAYERS[-1], refusals.refused_call("layers", refusals.LAYERS[-1]))


def _again(cls: type[PreTrainedModel], model: Model, config: Any, name: str) -> PreTrainedModel:
    """Make a model again, from a pickle or for a copy."""
    made = cls._of(model, config)
    made.name_or_path = name
    return made


__dir__ = public_names(__name__)
