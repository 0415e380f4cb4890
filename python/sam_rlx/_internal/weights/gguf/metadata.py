"""What a GGUF file of a model says about it besides its tensors."""

from collections.abc import Mapping
from typing import Any

# general.file_type: what most matrices are.
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q2_K": 10, "Q3_K": 12}
_FILE_TYPES |= {"Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "MXFP4": 38}
_FILE_TYPES |= {"Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "BF16": 32}
_GUESSED = 1024
_QUANTIZATION_VERSION = 2


def build(
    family: str, found: Mapping[str, Any], source: Mapping[str, str], dtype: str
) -> dict[str, Any]:
    """Return the keys and values of a file, but for those about its tensors.

    Parameters
    ----------
    family : str
        Name of the family, which is the architecture.
    found : mapping
        What the checkpoint's `describe` tells about the network.
    source : mapping
        Metadata of the file that the tensors come from. A ``config`` and a ``preprocessor`` in it
        are copied: other sizes than the released ones are told by nothing else.
    dtype : str
        The format of the matrices.
    """
    values: dict[str, Any] = {
        "general.architecture": family,
        "general.name": source.get("variant", found["variant"]),
        "general.version": found["version"],
        **_license(found, source),
        "general.file_type": _FILE_TYPES.get(dtype, _GUESSED),
        "general.quantization_version": _QUANTIZATION_VERSION,
        "general.alignment": 32,
        f"{family}.variant": found["variant" if "config" in source else "release"],
        f"{family}.naming": "short-1",
        f"{family}.resize": found["resize"],
    }
    for key in ("config", "preprocessor"):
        if key in source:
            values[f"{family}.{key}"] = source[key]
    return values | {f"{family}.{key}": value for key, value in found["values"].items()}


def _license(found: Mapping[str, Any], source: Mapping[str, str]) -> dict[str, str]:
    if "general.license" in source:
        kept = ("general.license", "general.license.name", "general.license.link")
        return {key: source[key] for key in (*kept, "general.source.url") if key in source}
    if "license" in source:
        return {"general.license": source["license"].lower()}
    license = {"general.license": "apache-2.0"}
    if found["license"]:
        license = {"general.license": "other", "general.license.name": "SAM License"}
        license["general.license.link"] = found["license"]
    return {**license, "general.source.url": found["source"]}
