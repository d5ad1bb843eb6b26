"""Inference engines in containers: which one runs, and over how many GPUs it splits a model.

Options as vLLM 0.12 and SGLang 0.5 document them on their command lines.
"""

import re
from dataclasses import dataclass

from triplane.inventory.workloads import Container, PodTemplate, Workload

_ENGINES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("vllm", re.compile(r"\bvllm\b")),
    ("sglang", re.compile(r"\bsglang\b")),
    ("tgi", re.compile(r"\btext-generation-(inference|launcher)\b")),
    ("trtllm", re.compile(r"\b(trtllm|tensorrt[-_]llm)\b")),
    ("triton", re.compile(r"\btritonserver\b")),
)
_TENSOR = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
_PIPELINE = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
_DATA = ("--data-parallel-size", "-dp", "--dp-size", "--dp")
_DATA_LOCAL = ("--data-parallel-size-local", "-dpl")
# A command that serves a model, and is no helper beside one such as a worker of Ray.
_SERVES = re.compile(
    r"\b(serve|api_server|launch_server)\b|--(served-)?model\b|--model[-_]path|\bdynamo\.(vllm|sglang)\b"
)
# What may hold the sizes out of sight: a variable of the shell or of Kubernetes, a configuration file.
_OUT_OF_SIGHT = re.compile(r"\$|--config\b")


def engine_of(container: Container) -> str:
    """The engine a container runs (vllm, sglang, tgi, trtllm, triton), by its image and command; empty: none known."""
    written = " ".join((container.image, *container.words))
    return next((name for name, pattern in _ENGINES if pattern.search(written)), "")


def serves(workload: Workload, template: PodTemplate) -> bool:
    """Whether pods answer requests on GPUs: a role of a model, or an engine that does not end by itself."""
    return (
        template.uses_gpu
        and not workload.finishes
        and (bool(workload.serving_role) or any(engine_of(container) for container in template.containers))
    )


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How an engine splits its model: GPUs of one instance are tensor times pipeline, and `data` instances run."""

    tensor: int
    pipeline: int
    data: int
    data_local: int | None
    """Instances in this pod, where they are counted apart."""
    written: bool
    """Whether any of the sizes is written; else the engine's defaults of 1 hold."""

    @property
    def instance(self) -> int:
        """GPUs of one instance."""
        return self.tensor * self.pipeline


def starts_model(container: Container) -> bool:
    """Whether the command line starts an engine with a model."""
    return any(_SERVES.search(word) for word in container.words)


def parallelism(container: Container) -> Parallelism | None:
    """The sizes on the command line of vLLM or SGLang; None where they are out of sight or are no numbers."""
    found = [_option(container, names) for names in (_TENSOR, _PIPELINE, _DATA, _DATA_LOCAL)]
    hidden = found[0] is None and any(_OUT_OF_SIGHT.search(word) for word in container.words)
    if hidden or any(value is not None and not _is_count(value) for value in found):
        return None
    tensor, pipeline, data, local = (int(value) if value else None for value in found)
    return Parallelism(tensor or 1, pipeline or 1, data or 1, local, any(found))


def _option(container: Container, names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := container.option(name)) is not None), None)


def _is_count(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 6 and int(value) > 0
