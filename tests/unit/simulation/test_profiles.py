"""Step-time profiles: the numbers are the fit of the shipped sweeps, and their errors are what they say."""

from pathlib import Path

import numpy as np
import pytest

from triplane import catalog
from triplane.simulation.profiles import UnknownProfile, find, profile, profiles

SILICON = Path(__file__).parents[2] / "data" / "silicon"


def sweep(p):
    """(decode batch, KV tokens, milliseconds), (prompt tokens, milliseconds) of a profile's rows."""
    decode, prefill = (np.load(SILICON / f"{p.table}__{kind}.npz") for kind in ("decode", "prefill"))
    i, j = (table["tp"][:, 0].tolist().index(p.gpus) for table in (decode, prefill))
    # The sweep gives KV usage; its batch is implied. 224,133 tokens is what it means by 100 % for every row of a file.
    tokens = decode["x_kv_usage"][i] * decode["max_kv_tokens"][i, 0]
    batch = tokens / decode["y_context_length"][i]
    prompt = prefill["prefill_isl"][j].astype(float)
    keep = ~np.isin(prompt, p.outliers)
    return (batch, tokens, decode["z_itl"][i]), (prompt[keep], prefill["prefill_ttft"][j][keep])


def fit(columns, y):
    a = np.stack(columns, axis=1)
    return np.linalg.lstsq(a / y[:, None], np.ones(len(y)), rcond=None)[0]


def decode_fit(batch, tokens, y):
    return fit([np.ones(len(y)), batch, tokens], y)


def prefill_fit(prompt, y):
    return fit([np.ones(len(y)), prompt, prompt**2], y)


@pytest.mark.parametrize("p", profiles(), ids=lambda p: p.name)
def test_coefficients_are_the_fit(p):
    (batch, tokens, itl), (prompt, ttft) = sweep(p)
    graphs = batch <= p.decode["graphBatch"]
    a, b, c = (p.decode[key] for key in ("base", "sequence", "token"))
    assert [a, b, c] == pytest.approx(decode_fit(batch[graphs], tokens[graphs], itl[graphs]), rel=2e-3)
    error = np.abs(a + b * batch + c * tokens - itl)[graphs] / itl[graphs]
    assert error.mean() == pytest.approx(p.decode["meanError"], abs=0.002)
    assert error.max() == pytest.approx(p.decode["maxError"], abs=0.002)
    eager = np.median((itl - (a + b * batch + c * tokens))[~graphs])
    assert p.decode["eager"] == pytest.approx(eager, abs=0.03)
    p0, p1, p2 = (p.prefill[key] for key in ("base", "token", "square"))
    assert [p0, p1, p2] == pytest.approx(prefill_fit(prompt, ttft), rel=2e-3)
    error = np.abs(p0 + p1 * prompt + p2 * prompt**2 - ttft) / ttft
    assert error.mean() == pytest.approx(p.prefill["meanError"], abs=0.002)
    assert error.max() == pytest.approx(p.prefill["maxError"], abs=0.002)


@pytest.mark.parametrize("p", profiles(), ids=lambda p: p.name)
def test_rows_held_out_of_the_fit(p):
    """Fitted to every second row, the rest is met: median 15 % for a decode step, 25 % for a prompt."""
    (batch, tokens, itl), (prompt, ttft) = sweep(p)
    graphs = batch <= p.decode["graphBatch"]
    batch, tokens, itl = batch[graphs], tokens[graphs], itl[graphs]
    a, b, c = decode_fit(batch[::2], tokens[::2], itl[::2])
    assert np.median(np.abs(a + b * batch[1::2] + c * tokens[1::2] - itl[1::2]) / itl[1::2]) < 0.15
    p0, p1, p2 = prefill_fit(prompt[::2], ttft[::2])
    assert np.median(np.abs(p0 + p1 * prompt[1::2] + p2 * prompt[1::2] ** 2 - ttft[1::2]) / ttft[1::2]) < 0.25


@pytest.mark.parametrize("p", profiles(), ids=lambda p: p.name)
def test_provenance_and_names(p):
    assert p.source and p.date and p.licence == "Apache-2.0" and p.engine_version and p.kv_source
    assert p.accelerator in catalog.accelerators() and catalog.model_shape(p.model) is not None
    for low, high in p.band.values():
        assert 0 < low < 1 < high
    assert find(p.model, p.accelerator, p.gpus) is p is profile(p.name)


def test_derived_capacity_follows_from_memory():
    """KV tokens of TP4 and TP8: memory less weights less what the measured TP2 figure leaves for the rest."""
    shape = catalog.model_shape("nvidia/Llama-3.3-70B-Instruct-FP8")
    rest = 0.9 * 80 - (224_133 * shape.kv_bytes_per_token / 2**30 + shape.weights_gib) / 2
    for gpus in (4, 8):
        tokens = (gpus * (0.9 * 80 - rest) - shape.weights_gib) * 2**30 / shape.kv_bytes_per_token
        assert profile(f"llama-3.3-70b-fp8-h100-tp{gpus}").kv_tokens == pytest.approx(tokens, rel=2e-3)


def test_times_are_seconds_and_scale():
    p = profile("llama-3.3-70b-fp8-h100-tp2")
    assert p.times().decode_base == pytest.approx(0.014634)
    assert p.times(prefill=0.5).prefill_token == pytest.approx(0.08053e-3 / 2)
    assert p.engine_limits(block_size=64).kv_blocks == 3502


def test_unknown():
    with pytest.raises(UnknownProfile, match=r"did you mean llama-3\.3-70b-fp8-h100-tp2"):
        profile("llama-3.3-70b-fp8-h100-tp2x")
    with pytest.raises(UnknownProfile, match="no measured step times for x on 3 x B200"):
        find("x", "B200", 3)
