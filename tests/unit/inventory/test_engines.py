"""Engines in containers and how they split a model."""

import pytest

from triplane.inventory.engines import Parallelism, engine_of, parallelism, starts_model
from triplane.inventory.workloads import Container


def container(*words: str, image: str = "vllm/vllm-openai:v0.12.0") -> Container:
    return Container({"image": image, "args": list(words)}, (), init=False)


@pytest.mark.parametrize(
    ("image", "words", "engine"),
    [
        ("vllm/vllm-openai:v0.12.0", (), "vllm"),
        ("registry.example.com/llm:1", ("python", "-m", "vllm.entrypoints.openai.api_server"), "vllm"),
        ("lmsysorg/sglang:v0.5.6", (), "sglang"),
        ("ghcr.io/huggingface/text-generation-inference:3", (), "tgi"),
        ("registry.example.com/t:1", ("trtllm-serve", "/models/a"), "trtllm"),
        ("registry.example.com/t:1", ("tritonserver",), "triton"),
        ("registry.example.com/vllmish:1", (), ""),
    ],
)
def test_an_engine_is_known_by_image_or_command(image: str, words: tuple[str, ...], engine: str) -> None:
    assert engine_of(container(*words, image=image)) == engine


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), Parallelism(1, 1, 1, None, False)),
        (("--tensor-parallel-size=4",), Parallelism(4, 1, 1, None, True)),
        (("--tensor_parallel_size", "4", "-pp", "2"), Parallelism(4, 2, 1, None, True)),
        (("vllm serve m -tp 2 --data-parallel-size 8 --data-parallel-size-local=4",), Parallelism(2, 1, 8, 4, True)),
        (("--tp-size", "8", "--dp-size", "2"), Parallelism(8, 1, 2, None, True)),
        (("--model=$(MODEL)", "--tensor-parallel-size=2"), Parallelism(2, 1, 1, None, True)),
        (("--model=$(MODEL)",), None),
        (("--config", "/etc/vllm.yaml"), None),
        (("--tensor-parallel-size=$(TP)",), None),
        (("--tensor-parallel-size=zero",), None),
        (("--tensor-parallel-size=0",), None),
        (("--tensor-parallel-size",), None),
    ],
)
def test_sizes_are_read_from_the_command_line(words: tuple[str, ...], expected: Parallelism | None) -> None:
    assert parallelism(container(*words)) == expected


def test_the_last_of_two_options_counts() -> None:
    assert container("--tp=2", "--tp", "4").option("--tp") == "4"


@pytest.mark.parametrize(
    ("words", "starts"),
    [
        (("serve", "/models/a"), True),
        (("--model=/models/a",), True),
        (("python -m dynamo.vllm --served-model-name a",), True),
        (("ray start --block --address=leader:6379",), False),
        (("--models-dir", "/models"), False),
    ],
)
def test_a_helper_of_an_engine_starts_no_model(words: tuple[str, ...], starts: bool) -> None:
    assert starts_model(container(*words)) is starts
