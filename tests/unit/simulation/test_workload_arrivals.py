"""Generated arrivals and lengths: the rates, burstiness and shapes asked for, and the same bytes from the same seed."""

import numpy as np
import pytest

from triplane.simulation.requests import Requests
from triplane.simulation.workload import (
    EmpiricalLengths,
    FixedLengths,
    LognormalLengths,
    RateCurve,
    arrivals,
    burst,
    constant,
    diurnal,
    generate,
    ramp,
    repeat,
    step,
    with_long_prompt,
)

FIXED = FixedLengths(100, 10)


def counts(times, edges):
    return np.histogram(times, edges)[0]


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 3.0])
def test_rate_and_burstiness(cv):
    times = arrivals(constant(50.0, 4000.0), np.random.default_rng(1), cv=cv)
    gaps = np.diff(times)
    # Means of 200,000 gaps: four standard errors.
    assert len(times) == pytest.approx(200_000, abs=4 * (cv + 0.01) * np.sqrt(200_000))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05, abs=1e-6)


@pytest.mark.parametrize(
    ("curve", "edges", "expected"),
    [
        (step(10, 100, 500, 1000), [0, 500, 1000], [5_000, 50_000]),
        (burst(10, 200, 300, 100, 1000), [0, 300, 400, 1000], [3_000, 20_000, 6_000]),
        (ramp(0, 100, 200, 800, 1000), [0, 200, 500, 800, 1000], [0, 7_500, 22_500, 20_000]),
        # An hour at each end of the day and at its peak: 10 (1 - cos) and 10 (1 + cos), integrated.
        (diurnal(10, 1.0, 86400, peak_at=43200), [0, 3600, 41400, 45000], [409.8, 395_642, 71_897]),
    ],
)
def test_shapes(curve, edges, expected):
    seen = counts(arrivals(curve, np.random.default_rng(2)), edges)
    for count, mean in zip(seen, expected, strict=True):
        assert count == pytest.approx(mean, abs=5 * np.sqrt(mean) + 1)


def test_times_are_exact_inside_a_ramp():
    curve = RateCurve(np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    assert curve.when(np.array([0.0, 12.5, 50.0])) == pytest.approx([0.0, 5.0, 10.0])


def test_same_seed_same_bytes():
    lengths = LognormalLengths(input_mu=6, input_sigma=1, output_mu=5, output_sigma=1, correlation=0.3)
    one, two, other = (generate(diurnal(20, 0.7, 3600), lengths, seed, cv=2.0) for seed in (7, 7, 8))
    assert one.arrival.tobytes() == two.arrival.tobytes() and one.input_tokens.tobytes() == two.input_tokens.tobytes()
    assert one.arrival.tobytes() != other.arrival.tobytes()


def test_lognormal_fit_gives_the_trace_back():
    rng = np.random.default_rng(3)
    truth = LognormalLengths(input_mu=6.5, input_sigma=0.8, output_mu=5.0, output_sigma=0.6, correlation=0.4)
    sample = Requests(np.arange(100_000.0), *truth.draw(100_000, rng))
    fit = LognormalLengths.fit(sample)
    for name in ("input_mu", "input_sigma", "output_mu", "output_sigma", "correlation"):
        assert getattr(fit, name) == pytest.approx(getattr(truth, name), abs=0.02), name
    assert fit.longest_input == sample.input_tokens.max()


def test_empirical_lengths_keep_pairs():
    trace = Requests(np.arange(3.0), np.array([1, 2, 3]), np.array([10, 20, 30]))
    prompt, output = EmpiricalLengths(trace).draw(1000, np.random.default_rng(0))
    assert (output == prompt * 10).all() and set(prompt) == {1, 2, 3}


def test_repeat_keeps_the_mean_gap():
    trace = Requests(np.array([0.0, 1.0, 4.0]), np.array([1, 2, 3]), np.array([4, 5, 6]))
    longer = repeat(trace, 11.0)
    assert longer.arrival.tolist() == [0, 1, 4, 6, 7, 10]
    assert longer.input_tokens.tolist() == [1, 2, 3, 1, 2, 3]
    assert repeat(trace, 3.0, speed=2.0).arrival.tolist() == [0, 0.5, 2.0]


def test_the_two_oclock_prompt():
    requests = with_long_prompt(generate(constant(1.0, 3 * 3600), FIXED, 0))
    at = int(requests.input_tokens.argmax())
    assert requests.input_tokens[at] == 1_000_000 and requests.arrival[at] == 7200.0
    assert (np.diff(requests.arrival) >= 0).all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: constant(1.0, 0.0), "longer than 0"),
        (lambda: constant(-1.0, 5.0), "not negative"),
        (lambda: constant(float("nan"), 5.0), "finite"),
        (lambda: step(1, 2, 9, 5), "ascend"),
        (lambda: diurnal(1, 1.5, 5), "swing"),
        (lambda: arrivals(constant(1, 1), np.random.default_rng(0), cv=-1), "cv"),
        (lambda: LognormalLengths.fit(Requests(np.zeros(1), np.ones(1, int), np.ones(1, int))), "at least 2"),
        (lambda: repeat(Requests(np.zeros(1), np.ones(1, int), np.ones(1, int)), 5), "at least 2"),
        (lambda: Requests(np.array([1.0, 0.0]), np.ones(2, int), np.ones(2, int)), "ascending"),
        (lambda: Requests(np.zeros(1), np.zeros(1, int), np.ones(1, int)), "at least 1 prompt token"),
        (lambda: Requests(np.zeros(2), np.ones(1, int), np.ones(2, int)), "same length"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
