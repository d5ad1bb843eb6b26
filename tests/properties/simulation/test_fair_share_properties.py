"""What KAI's division keeps to, and where it does not what one might expect."""

import math

from hypothesis import given
from hypothesis import strategies as st

from triplane.simulation.fair_share import UNLIMITED, Claim, divide


@st.composite
def claims(draw: st.DrawFn, *, whole: bool = True) -> list[Claim]:
    amount = st.integers(0, 40).map(float) if whole else st.floats(0, 40, allow_nan=False)
    return [
        Claim(
            f"queue-{index}",
            quota=draw(amount),
            limit=draw(st.just(UNLIMITED) | amount),
            weight=float(draw(st.integers(0, 4))),
            request=draw(amount),
            priority=draw(st.sampled_from([100, 200])),
            created=float(draw(st.integers(0, 3))),
            usage=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        )
        for index in range(draw(st.integers(1, 6)))
    ]


@given(claims(whole=False), st.floats(0, 200), st.sampled_from([0.0, 1.0, 2.0]))
def test_quota_is_guaranteed_and_the_request_not_exceeded_by_a_unit(given: list[Claim], total: float, k: float) -> None:
    shares, left = divide(total, given, k)
    for claim in given:
        assert shares[claim.name] >= min(claim.quota, claim.requestable)
        # The remainder is handed out in units, so that a request of a fraction may be passed.
        assert shares[claim.name] < claim.requestable + 1 or shares[claim.name] <= claim.quota
    promised = sum(min(claim.quota, claim.requestable) for claim in given)
    assert math.isclose(sum(shares.values()) + left, max(total, promised), abs_tol=1e-9)


@given(claims(), st.integers(0, 200))
def test_nothing_is_left_while_a_weighted_queue_wants_more(given: list[Claim], total: int) -> None:
    shares, left = divide(float(total), given, 0.0)
    wanting = [claim for claim in given if claim.weight > 0 and shares[claim.name] < claim.requestable]
    assert left == 0 or not wanting


@given(claims(), st.integers(0, 100), st.integers(0, 100))
def test_more_to_divide_gives_no_less_in_all(given: list[Claim], total: int, more: int) -> None:
    """In all, not to each: what rounding withholds may go to another queue when the total grows."""
    shares, _ = divide(float(total), given, 0.0)
    grown, _ = divide(float(total + more), given, 0.0)
    assert sum(grown.values()) >= sum(shares.values())


@given(claims(), st.integers(0, 200))
def test_a_lower_priority_gets_no_more_than_rounding_withheld_while_a_higher_one_wants(
    given: list[Claim], total: int
) -> None:
    """Less than a unit a queue: what rounding withholds from the higher priority is offered to the lower one first."""
    shares, _ = divide(float(total), given, 0.0)
    higher = [claim for claim in given if claim.priority == 200]
    surplus = sum(shares[c.name] - min(c.quota, c.requestable) for c in given if c.priority == 100)
    if any(claim.weight > 0 and shares[claim.name] < claim.requestable for claim in higher):
        assert surplus <= len(higher)


def test_a_queue_may_get_less_of_more() -> None:
    """No monotonicity for each: of 3 GPUs the light queue gets one as a remainder, of 4 the heavy ones take all."""
    light = Claim("light", 0, UNLIMITED, 1, 5, created=0)
    heavy = [Claim(f"heavy-{i}", 0, UNLIMITED, 3, 2, created=i) for i in (1, 2)]
    assert divide(3, [light, *heavy])[0] == {"light": 1, "heavy-1": 1, "heavy-2": 1}
    assert divide(4, [light, *heavy])[0] == {"light": 0, "heavy-1": 2, "heavy-2": 2}
