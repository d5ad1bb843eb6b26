"""Shapes of models: how much memory their weights and their KV cache take."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from triplane.catalog.data import load

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides a model's memory. Sizes over all GPUs together; divide by the tensor-parallel size for one."""

    name: str
    parameters: int
    bytes_per_parameter: float
    """Mean over the quantised part."""
    weights_gib: float
    """Size of the weights as loaded."""
    layers: int
    kv_heads: int | None
    """None: attention caches one latent vector a layer."""
    head_dim: int | None
    kv_bytes_per_token: int
    """KV cache of one token over all layers, at 16 bits a value; an upper bound where layers cache only a window."""
    source: str


@cache
def _by_name() -> dict[str, tuple[str, dict[str, Any]]]:
    return {name.lower(): (key, row) for key, row in load("models")["models"].items() for name in row["names"]}


def model_shape(model_name: str) -> ModelShape | None:
    """The shape of a model by its published name, with or without organisation and FP8 ending; None: not known.

    `nvidia/Llama-3.3-70B-Instruct-FP8` is Llama-3.3-70B-Instruct at one byte a parameter.
    """
    data = load("models")
    published = model_name.rpartition("/")[2].lower()
    known, quantised = _by_name().get(published), None
    if known is None:
        for suffix, size in data["suffixes"].items():
            known = _by_name().get(published.removesuffix(suffix)) if published.endswith(suffix) else None
            if known is not None:
                quantised = size
                break
    if known is None:
        return None
    name, row = known
    if "weights_gib" in row:
        if quantised is not None:
            return None  # a mix of precisions quantised once more: nobody has published its size
        weights = float(row["weights_gib"]) * _GIB
        size = weights / row["parameters"]
    else:
        size = float(quantised or row["bytes_per_parameter"])
        kept = row["unquantized_parameters"]
        weights = (row["parameters"] - kept) * size + kept * 2
    width = row["latent_width"] if "latent_width" in row else 2 * row["kv_heads"] * row["head_dim"]
    return ModelShape(
        name=name,
        parameters=row["parameters"],
        bytes_per_parameter=size,
        weights_gib=weights / _GIB,
        layers=row["layers"],
        kv_heads=row.get("kv_heads"),
        head_dim=row.get("head_dim"),
        kv_bytes_per_token=width * row["layers"] * 2,
        source=data["source"],
    )
