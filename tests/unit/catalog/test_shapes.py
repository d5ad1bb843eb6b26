"""Shapes of models."""

import pytest

from triplane import catalog


@pytest.mark.parametrize(
    ("name", "key", "kv_bytes", "weights_gib"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b", 327_680, 131.4),
        # Embeddings stay at 16 bits: more than the 65.7 GiB of one byte a parameter.
        ("nvidia/Llama-3.3-70B-Instruct-FP8", "llama-3.3-70b", 327_680, 67.7),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.3-70b", 327_680, 67.7),
        ("llama-3.1-8b-instruct", "llama-3.1-8b", 131_072, 15.0),
        ("Qwen/Qwen3-32B", "qwen3-32b", 262_144, 61.0),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3", 70_272, 626.7),
        ("openai/gpt-oss-120b", "gpt-oss-120b", 73_728, 60.8),
    ],
)
def test_known_models(name: str, key: str, kv_bytes: int, weights_gib: float) -> None:
    shape = catalog.model_shape(name)
    assert shape is not None
    assert (shape.name, shape.kv_bytes_per_token) == (key, kv_bytes)
    assert shape.weights_gib == pytest.approx(weights_gib, abs=0.05)


@pytest.mark.parametrize(
    "name", ["acme/chat-8b", "Llama-3.3-70B-Instruct-AWQ", "gpt-oss-120b-FP8", "", "FP8", "Llama-3.3-70B-Instruct/"]
)
def test_unknown_models_have_no_shape(name: str) -> None:
    assert catalog.model_shape(name) is None


def test_kv_cache_agrees_with_a_measured_server() -> None:
    """vLLM 0.10.1.1, Llama 3.3 70B FP8 on two H100 of 80 GiB: 224,133 tokens of KV cache fit beside the weights."""
    shape = catalog.model_shape("nvidia/Llama-3.3-70B-Instruct-FP8")
    assert shape is not None
    free_gib = 2 * catalog.accelerator("H100").memory_gib * 0.9 - shape.weights_gib
    used_gib = 224_133 * shape.kv_bytes_per_token / 2**30
    assert used_gib < free_gib < used_gib + 9
