"""Models: checkpoint files and names become an immutable ``Model``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_flag, as_integer, as_optional_text, as_path_text
from sam_rlx._internal.public import public_names
from sam_rlx._internal.synonyms import also
from sam_rlx._internal.weights.sources import (
    find_adapter,
    find_checkpoint,
    local_path,
    packaged_name,
)
from sam_rlx.errors import CheckpointError, InvalidArgumentError

__all__ = ["Model", "build_info", "load_model"]

# Instruction sets, those of other processors too.
Isa: TypeAlias = Literal[
    "generic",
    "avx2",
    "avx2_vnni",
    "avx512",
    "avx512_vnni",
    "avx512_bf16",
    "amx",
    "neon",
    "neon_dotprod",
    "neon_i8mm",
    "neon_bf16",
]


def as_model(model: Any) -> Model:
    """Return the model that a user gives; `InvalidArgumentError` for anything else."""
    if not isinstance(model, Model):
        raise InvalidArgumentError(f"model: expected sam_rlx.Model, found {type(model).__name__}")
    return model


class Model:
    """Weights of one network, ready to run. Made by `load_model`.

    A model does not change after loading. Any number of predictors, in any number of threads, may
    share one. A copy is the model itself. A pickle holds no weights but the source and the
    arguments of `load_model`: reading it loads the file again.
    """

    def __init__(
        self, core: _core.Model, source: str, arguments: Mapping[str, Any] | None = None
    ) -> None:
        self._core = core
        self._source = source
        # Of the core's `load_model`, all but the path.
        self._arguments = dict(arguments or {})
        self._absolute = os.path.abspath(source)  # noqa: PTH100  (no link is followed)

    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        kind = (self.family, self.variant, self.num_parameters)
        return _load_again, (self._packaged() or self._absolute, self._arguments, kind)

    def _packaged(self) -> str | None:
        """Return the name of a model that every installation has in a folder of its own."""
        return packaged_name(Path(self._absolute))

    def __repr__(self) -> str:
        return (
            f"<sam_rlx.Model {self.family} {self.variant}, {self.num_parameters:,} parameters, "
            f"{self.precision}, {self.isa}>"
        )

    @property
    def core(self) -> _core.Model:
        """The compiled object. Not part of the public interface."""
        return self._core

    @property
    def source(self) -> str:
        """The file that the weights came from."""
        return self._source

    @property
    def key(self) -> str | None:
        """The keys to the state dict in the file, as given to `load_model`, or None."""
        key: str | None = self._arguments.get("key")
        return key

    @property
    def lora(self) -> str | None:
        """The file or folder of the adapter that was merged, or None."""
        lora: str | None = self._arguments.get("lora")
        return lora

    @property
    def family(self) -> str:
        """Family of the network: ``"sam"``, ``"sam2"`` (SAM 2 and 2.1) or ``"sam3"``."""
        return self._core.family

    @property
    def variant(self) -> str:
        """Size of the network.

        That of a release, such as ``"vit_b"``, ``"hiera_t"`` or ``"sam3"``: ``sam-rlx models``
        lists them. ``"sam-nano"``, ``"sam2-nano"`` or ``"sam3-nano"``. ``"custom"`` for others.
        """
        return self._core.variant

    @property
    def version(self) -> str:
        """Version of the family: ``"1.0"``, ``"2.0"``, ``"2.1"``, ``"3.0"`` or ``"3.1"``.

        ``"2"`` for SAM 2 without its memory, which alone tells 2.0 from 2.1.
        """
        return self._core.version

    @property
    def supports_video(self) -> bool:
        """Whether it follows objects through a video: SAM 2, and SAM 3 with its tracker.

        Image models of transformers, such as ``Sam2Model``, have no memory and cannot.
        """
        return self._core.supports_video

    @property
    def supports_text(self) -> bool:
        """Whether it finds what a text names: SAM 3 with its detector."""
        return self._core.supports_text

    @property
    def config(self) -> dict[str, Any]:
        """Sizes of the network under upstream's argument names."""
        return dict(self._core.config)

    @property
    def precision(self) -> str:
        """Precision of the large linear layers: ``"float32"``, ``"bfloat16"`` or ``"int8"``.

        Or the format of most packed weights of a GGUF file, such as ``"Q4_K"``; what is computed
        with them is float32.
        """
        return self._core.precision

    @property
    def isa(self) -> str:
        """Instruction set of the kernels that this model runs on."""
        return self._core.isa

    @property
    def device(self) -> str:
        """Where the model computes: always ``"cpu"``."""
        return "cpu"

    @property
    def num_parameters(self) -> int:
        """Count of the weights, buffers included."""
        return self._core.num_parameters

    @property
    def img_size(self) -> int:
        """Side of the square network input, in pixels."""
        return self._core.img_size

    @property
    def image_size(self) -> int:
        """The same as `img_size`, by the name of `load_model`'s argument."""
        return self.img_size

    @property
    def mask_side(self) -> int:
        """Side of `mask_input` and of low-resolution masks, in pixels."""
        return self._core.mask_side

    @property
    def mask_threshold(self) -> float:
        """Logit above which a pixel belongs to a mask."""
        return self._core.mask_threshold

    def report(self) -> dict[str, list[str]]:
        """Tell how the tensors of the file were used.

        Returns
        -------
        dict of str to list of str
            Tensor names under the keys ``missing``, ``unexpected``, ``misshaped``, ``ignored``,
            ``skipped`` and ``merged``, which an adapter changed.
        """
        return {key: list(names) for key, names in self._core.report.items()}


@also(img_size="image_size")
def load_model(
    source: str | os.PathLike[str],
    *,
    variant: str | None = None,
    precision: Literal["float32", "bfloat16", "int8"] | None = None,
    isa: Isa | None = None,
    image_size: int | None = None,
    normalize: bool = True,
    strict: bool = True,
    prefer: str | None = None,
    key: str | None = None,
    lora: str | os.PathLike[str] | None = None,
    filename: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Model:
    """Load a model from a checkpoint file, by packaged name, or from the hub.

    Parameters
    ----------
    source : str or path
        An existing file or directory: Meta's ``.pth``, safetensors with Meta's or Hugging Face's
        tensor names, with the ``config.json`` beside them, or GGUF. Or ``"sam-nano"``,
        ``"sam2-nano"`` or ``"sam3-nano"``, the small models inside the package (write
        ``"./sam-nano"`` for a file of that name). Or a hub id such as
        ``"facebook/sam-vit-base"``, which needs the extra ``hub``.
    variant : str, optional
        Expected variant, such as ``"vit_b"``. Found from the tensors if not given; a
        contradiction is an error.
    precision : {"float32", "bfloat16", "int8"}, optional
        How the large linear layers hold their weights and compute, whatever the file holds.
        ``"float32"``, the default for float files. ``"bfloat16"`` halves the weights in memory;
        inputs are rounded too on processors with AVX-512 BF16, AMX or ARM's BF16, and with AVX2 or
        VNNI, where weights and inputs become integers of 16 bits; elsewhere arithmetic is float32.
        ``"int8"`` rounds weights and, while layers run, inputs to 8 bits;
        it is faster and smaller, and masks differ a little. The docs tell which layers. Without
        it, large matrices of a GGUF file stay packed in memory and are unpacked while they are
        multiplied, which changes no bit.
    isa : str, optional
        Instruction set. Default: the environment variable ``SAM_RLX_ISA`` if it is set, else the
        best one of this CPU. `sam_rlx.build_info` lists them.
    image_size : int, optional
        Side of the network's square input in pixels, for another one than the weights were
        trained with: position tables are made for it, and quality falls with the distance. SAM
        and SAM 3: a multiple of the patch size; SAM 2: of 32 (the nano model too). At most 4096.
    normalize : bool
        With False, the network gets pixels as 0 to 1, without mean and deviation, as MedSAM was
        trained: what ``"do_normalize": false`` says in a ``preprocessor_config.json``.
    strict : bool
        With True, a tensor of the file that the network lacks is an error. With False it is only
        listed by `Model.report`. A missing tensor is always an error.
    prefer : str, optional
        For a directory with several checkpoints: text in the name of the one to load, such as
        ``"q8_0"``, in small or capital letters. Exactly one must have it.
    key : str, optional
        For a file with several models, such as the weights of a training and their average: the
        keys that lead to the one to load, joined by dots, such as ``"ema.module"``. Without it,
        the only dict whose names fit is taken, and several are an error that lists them.
    lora : str or path, optional
        An adapter to merge into the weights: a folder of PEFT (``adapter_config.json`` and
        ``adapter_model.safetensors``), its hub id, a file of SAMed (``w_a_000``, ...) or one of
        micro-sam. It may have the names of transformers' classes or Meta's, whichever the
        checkpoint has. Weights that it changes are float32, as PEFT's ``merge_and_unload`` makes
        them; packed ones are unpacked first.
    filename : str, optional
        For a hub id: the file of the repository to load, such as ``"sam2.1_hiera_tiny.pt"``.
        Default: ``model.safetensors``, ``pytorch_model.bin`` or their shards, else the only
        checkpoint file.
    revision, token, cache_dir, local_files_only
        Passed on to ``huggingface_hub`` for a hub id, and refused for anything else. All but
        `revision` count for the hub id of an adapter too.

    Returns
    -------
    Model
        Immutable; may be shared between threads and predictors.

    Raises
    ------
    FileNotFoundError
        `source` is no existing path, no packaged name and no hub id, or `lora` no path and no id.
    CheckpointError
        The file is damaged, its tensors are not those of a known network, or a directory has no
        checkpoint or several to choose from, which are listed. Or an adapter is damaged, or was
        trained for another model.
    UnsupportedError
        The variant, precision or instruction set is not available here, or no merge gives what
        this kind of adapter computes.
    InvalidArgumentError
        An argument has the wrong type, a hub argument is given for a local file, or `prefer` for
        anything but a directory.
    MissingExtraError, HubError
        The hub cannot be used, or does not give the model.

    Examples
    --------
    >>> import sam_rlx
    >>> model = sam_rlx.load_model("sam-nano")
    >>> model.family, model.device
    ('sam', 'cpu')
    """
    arguments = {
        "variant": as_optional_text("variant", variant),
        "precision": as_optional_text("precision", precision),
        "isa": as_optional_text("isa", isa),
        "normalize": as_flag("normalize", normalize),
        "strict": as_flag("strict", strict),
        "image_size": None if image_size is None else as_integer("image_size", image_size, 1),
        "key": check_key(key),
    }
    path = find_checkpoint(
        source,
        prefer=prefer,
        filename=filename,
        revision=revision,
        token=token,
        cache_dir=cache_dir,
        local_files_only=local_files_only,
    )
    if lora is not None:
        arguments["lora"] = find_adapter(
            lora, token=token, cache_dir=cache_dir, local_files_only=local_files_only
        )
    return _load(str(path), arguments)


def _load(path: str, arguments: Mapping[str, Any]) -> Model:
    return Model(_core.load_model(path, **arguments), path, arguments)


def _load_again(source: str, arguments: Mapping[str, Any], kind: tuple[str, str, int]) -> Model:
    """Load the model of a pickle.

    Raises
    ------
    FileNotFoundError
        The file is not there any more.
    CheckpointError
        The file holds another kind of model by now.
    """
    path = local_path(source)
    if path is None:
        raise FileNotFoundError(f"Model: expected the file of a pickled model, found no {source}")
    model = _load(str(path), arguments)
    found = (model.family, model.variant, model.num_parameters)
    if found != tuple(kind):
        raise CheckpointError(f"{path}: expected the model that was pickled, {kind}, found {found}")
    return model


def check_key(key: Any) -> str | None:
    """Return a `key`; raise `InvalidArgumentError` if it is no text."""
    return as_optional_text("load_model.key", key)


def build_info() -> dict[str, Any]:
    """Tell how the compiled core was built and what it can run on.

    Returns
    -------
    dict
        Version, compiler, OpenMP, device, cores, families, precisions, and the instruction sets
        that were compiled and that this CPU can run. `cores` is the default number of threads:
        the cores of the process's affinity mask, or its CPU quota (of a container, a systemd
        slice, ...) where that is less, rounded to a whole number of at least 1.
    """
    return dict(_core.build_info())


def list_tensors(
    path: str | os.PathLike[str], *, key: str | None = None
) -> list[tuple[str, str, tuple[int, ...]]]:
    """List the tensors of a checkpoint file without loading them.

    Parameters
    ----------
    path : str or path
        An existing file or directory.
    key : str, optional
        As for `load_model`.

    Returns
    -------
    list of (str, str, tuple of int)
        Name, dtype in safetensors' spelling (``"F32"``, ``"BF16"``, ...) and shape, in the order
        of the file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CheckpointError
        The file is damaged or of an unknown kind.
    """
    return _core.list_tensors(as_path_text("path", path), check_key(key))


__dir__ = public_names(__name__)
