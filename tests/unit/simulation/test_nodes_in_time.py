"""Node plans, packing, and what Karpenter and the Cluster Autoscaler do when."""

import datetime as dt
import math

import pytest

from tests.unit.simulation.worlds import arrivals, kinds, run, setup, stack
from triplane.settings.pools import MaintenanceWindow
from triplane.simulation.coldstart import ColdStart, Draws
from triplane.simulation.nodes_plan import PoolError, pack, pool_plan, window_open


@pytest.mark.parametrize(
    ("pods", "free", "most", "new"),
    [
        ([], [], 5, 0),
        ([8], [8], 5, 0),
        ([4, 4], [], 5, 1),
        ([4, 4, 4], [], 5, 2),
        ([6, 2, 6, 2], [], 5, 2),
        ([4, 4, 4], [2, 2], 5, 2),
        ([8, 8, 8], [], 2, 2),
        ([16], [], 5, 0),  # fits on no node of 8: buying one would not help
    ],
)
def test_pods_are_packed_largest_first(pods: list[int], free: list[int], most: int, new: int) -> None:
    assert pack(pods, free, 8, most) == new


def test_a_plan_has_the_list_price_and_keeps_empty_nodes() -> None:
    plan = pool_plan("serving", stack().pools["serving"], reserved=0, price_hour=None, underutilized=False)
    assert (plan.instance_type, plan.gpus, plan.most) == ("p5.48xlarge", 8, 6)
    assert plan.price * 3600 == pytest.approx(55.04)
    assert plan.consolidate_after == 3600
    unsafe = pool_plan("serving", stack().pools["serving"], reserved=0, price_hour=70.0, underutilized=True)
    assert (unsafe.consolidate_after, unsafe.price * 3600) == (0, pytest.approx(70.0))


def test_an_instance_type_must_hold_the_pods() -> None:
    pool = stack().pools["serving"].model_copy(update={"accelerator": "L4", "gpus_per_node": 1})
    small = pool_plan("l4", pool, reserved=0, price_hour=None, underutilized=False)
    large = pool_plan("l4", pool, reserved=0, price_hour=None, underutilized=False, pods=[(1.0, 8000.0, 64 * 2.0**30)])
    assert small.instance_type == "g6.xlarge"
    assert large.capacity[1] >= 8000 and large.price > small.price
    with pytest.raises(PoolError, match="CPU and memory"):
        pool_plan("l4", pool, reserved=0, price_hour=None, underutilized=False, pods=[(1.0, 1e9, 0.0)])


def test_a_spot_price_is_an_input() -> None:
    pool = stack().pools["serving"]
    spot = pool.model_copy(update={"capacity": pool.capacity.model_copy(update={"fallback": "spot"})})
    with pytest.raises(PoolError, match="spot price is an input"):
        pool_plan("serving", spot, reserved=0, price_hour=None, underutilized=False)


@pytest.mark.parametrize(
    ("when", "is_open"),
    [
        ("2026-01-10T02:00", True),  # a Saturday
        ("2026-01-10T01:59", False),
        ("2026-01-10T05:59", True),
        ("2026-01-10T06:00", False),
        ("2026-01-12T03:00", False),  # a Monday
    ],
)
def test_drift_has_its_window(when: str, is_open: bool) -> None:
    window = MaintenanceWindow.model_validate({"days": ["sat", "sun"], "from": "02:00", "to": "06:00"})
    assert window_open(window, dt.datetime.fromisoformat(when).replace(tzinfo=dt.UTC)) is is_open


def test_a_window_over_midnight_belongs_to_the_day_it_opens() -> None:
    window = MaintenanceWindow.model_validate({"days": ["sun"], "from": "23:00", "to": "01:00"})
    assert window_open(window, dt.datetime(2026, 1, 12, 0, 30, tzinfo=dt.UTC))
    assert not window_open(window, dt.datetime(2026, 1, 11, 0, 30, tzinfo=dt.UTC))
    assert not window_open(None, dt.datetime(2026, 1, 11, 0, 30, tzinfo=dt.UTC))


def test_the_pieces_of_a_cold_start_add_up_to_what_is_declared() -> None:
    pieces = ColdStart.of(420.0).pieces
    assert math.fsum(piece.median for piece in pieces) == pytest.approx(420.0)
    draws = Draws(3)
    drawn = sorted(draws.seconds("x", pieces[0]) for _ in range(2001))
    assert drawn[1000] == pytest.approx(pieces[0].median, rel=0.03)
    assert Draws(3).seconds("y", pieces[0]) == Draws(3).seconds("y", pieces[0]) != Draws(4).seconds("y", pieces[0])


BURST = arrivals("burst", 2.0, peak=14.0, at="5m", duration="5m")


def test_both_provisioners_wait_for_the_same_boot() -> None:
    made = setup(arrivals=BURST, horizon="25m")
    boots = {}
    for name in ("tripleLayer", "clusterAutoscaler"):
        result, _ = run(made, name)
        ordered = {subject: at for at, subject, _ in kinds(result, "nodeOrdered")}
        boots[name] = [at - ordered[subject] for at, subject, _ in kinds(result, "nodeReady")]
    n = min(map(len, boots.values()))
    assert n > 0
    assert boots["tripleLayer"][:n] == pytest.approx(boots["clusterAutoscaler"][:n])


def test_karpenter_orders_within_its_batch_and_the_cluster_autoscaler_at_its_scan() -> None:
    made = setup(arrivals=BURST, horizon="15m")
    karpenter, scanning = run(made, "tripleLayer")[0], run(made, "clusterAutoscaler")[0]

    def wait(result) -> float:  # type: ignore[no-untyped-def]
        order = kinds(result, "nodeOrdered")[0][0]
        return order - max(at for at, _, _ in kinds(result, "asked") if at < order)

    assert 1 < wait(karpenter) < 12
    assert 0 < wait(scanning) < 12


def test_an_empty_node_stays_for_as_long_as_the_pool_says() -> None:
    made = setup(arrivals=arrivals("burst", 2.0, peak=14.0, at="2m", duration="4m"), horizon="3h")
    result, _ = run(made, "tripleLayer")
    gone = kinds(result, "nodeGone")
    assert gone
    for at, node, _ in gone:
        left = [e.at for e in result.events if e.kind == "draining" and e.at < at]
        ready = next(t for t, subject, _ in kinds(result, "nodeReady") if subject == node)
        assert at - max([ready, *(t for t in left if t > ready)][:1]) >= 3600
    assert result.evictions == {}


def test_drift_replaces_one_node_at_a_time_inside_the_window_only() -> None:
    pool = {
        **stack().pools["serving"].model_dump(by_alias=True, exclude_unset=True),
        "maintenance": {"days": ["mon"], "from": "00:30", "to": "04:00"},
    }
    made = setup(
        stack(pools={"serving": pool}),
        horizon="2h",
        drift=[{"pool": "serving", "at": "10m"}],
        startReplicas={"decode": 3},
    )
    result, summary = run(made, "tripleLayer")
    drained = [at for at, _, detail in kinds(result, "nodeDraining") if detail == "Drifted"]
    assert len(drained) == 2 and min(drained) > 1800
    assert result.evictions["Drifted"] >= 2
    # Each replacement was ready before the old node was drained.
    ready = [at for at, _, _ in kinds(result, "nodeReady")]
    assert ready[0] < drained[0]
    assert summary.dropped == 0
