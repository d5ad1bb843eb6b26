"""Requests, replicas, gangs and nodes together: chains of events that must hold in every run."""

import math
from itertools import pairwise

import pytest

from tests.unit.simulation.worlds import arrivals, kinds, role, run, setup, stack
from triplane.simulation.explanation import episodes
from triplane.simulation.results import timeline

BURST = arrivals("burst", 2.0, peak=14.0, at="5m", duration="5m")


def test_steady_load_within_capacity_changes_nothing() -> None:
    result, summary = run(setup(horizon="20m"))
    assert summary.scalings == 0
    assert summary.in_slo == summary.offered - summary.unfinished
    assert summary.unfinished <= 10
    assert summary.most_nodes == {"serving": 1}
    assert result.events == []


def test_a_burst_buys_a_node_and_replicas_become_ready_in_order() -> None:
    made = setup(arrivals=BURST, horizon="25m")
    result, summary = run(made)
    assert summary.most_replicas["prefill"] > 1
    ordered, ready = kinds(result, "nodeOrdered"), kinds(result, "nodeReady")
    assert ordered and ready and ready[0][0] > ordered[0][0] + 60
    for name in {subject for _, subject, _ in kinds(result, "ready")}:
        asked, placed, done = (
            next(at for at, subject, _ in kinds(result, kind) if subject == name)
            for kind in ("asked", "placed", "ready")
        )
        assert asked < placed < done


def test_a_replica_beside_a_sister_needs_no_image() -> None:
    result, _ = run(setup(arrivals=BURST, horizon="25m"))
    # The first node already runs one prefill, so the next one there has its image.
    first = next(detail for _, subject, detail in kinds(result, "placed") if subject == "prefill-2")
    assert first.startswith("on serving-1: image 0 s")


@pytest.mark.parametrize("name", ["dutyCycleHpa", "queueDepthHpa", "tripleLayer", "clusterAutoscaler", "consolidating"])
def test_every_paid_gpu_second_has_a_cause(name: str) -> None:
    result, summary = run(setup(arrivals=BURST, horizon="30m"), name)
    assert math.fsum(result.gpu_seconds.values()) == pytest.approx(result.paid_gpu_seconds, rel=1e-9)
    assert min(result.gpu_seconds.values()) > -1e-6
    assert result.dollars == pytest.approx(result.paid_gpu_seconds / 8 * 55.04 / 3600, rel=1e-9)
    parts = summary.in_slo + summary.late + summary.dropped + summary.unfinished + summary.never_sent
    assert parts == summary.offered


def test_a_duty_cycle_does_not_see_the_queue_and_a_backlog_does() -> None:
    made = setup(arrivals=BURST, horizon="20m", startReplicas={"decode": 3})
    found = {}
    for name in ("dutyCycleHpa", "tripleLayer"):
        result, _ = run(made, name)
        series = result.series
        queue, signal = series["prefill.waiting"], series["prefill.signal"]
        peak = max(range(len(queue)), key=lambda at: queue[at])
        assert queue[peak] > 20
        found[name] = signal[peak] / series["prefill.target"][peak]
    assert found["dutyCycleHpa"] <= 100 / 70 + 1e-9
    assert found["tripleLayer"] > 3


def test_the_explanation_follows_the_events() -> None:
    made = setup(arrivals=BURST, horizon="25m")
    result, summary = run(made)
    told = timeline(result, made.load.horizon, made.objective)
    found = episodes(told.times, told.series, told.minutes, told.events, list(made.model.roles))
    assert found[0].bad == max(episode.bad for episode in found) > 0
    assert sum(episode.bad for episode in found) <= summary.late + summary.unfinished + summary.dropped
    path = found[0].replicas[0]
    assert (path.asked, path.name) in [(at, subject) for at, subject, _ in kinds(result, "asked")]
    assert path.ready is None or any(path.ready == at for at, _, _ in kinds(result, "ready"))


def test_a_zone_without_capacity_keeps_replicas_waiting() -> None:
    free, _ = run(setup(arrivals=BURST, horizon="25m"))
    short, _ = run(setup(arrivals=BURST, horizon="25m", refusals=0.9))
    refused = kinds(short, "nodeRefused")
    assert refused and kinds(free, "nodeRefused") == []
    # An offering that was refused is not asked for again within 3 minutes.
    assert all(later[0] - one[0] >= 180 for one, later in pairwise(refused))


def test_a_reservation_is_not_refused_and_is_paid_for_whole() -> None:
    result, _ = run(setup(arrivals=BURST, horizon="25m", refusals=0.9, reservedNodes={"serving": 6}))
    assert kinds(result, "nodeRefused") == []
    assert result.dollars == pytest.approx(6 * 55.04 * 25 / 60)
    assert result.gpu_seconds["reservedUnused"] > 0


def test_without_metrics_replicas_are_held() -> None:
    made = setup(arrivals=BURST, horizon="12m", outages=[{"at": "4m", "duration": "8m"}])
    result, summary = run(made)
    assert [at for at, _, _ in kinds(result, "scaled") if at > 240] == []
    assert summary.late + summary.unfinished > 0


def test_part_of_a_gang_holds_gpus_under_kube_scheduler_only() -> None:
    # Two nodes: the replicas take 6 GPUs, the first gang 8, and 2 are left for the second gang of 8.
    pool = {**stack().pools["serving"].model_dump(by_alias=True, exclude_unset=True), "nodes": {"max": 2}}
    leaves = {"chat-prefill": 2, "chat-decode": 4}
    children = {name: {"gpus": {"quota": gpus}} for name, gpus in leaves.items()}
    queues = {"all": {"gpus": {"quota": 16}, "children": {**children, "train": {"gpus": {"quota": 8, "limit": 16}}}}}
    job = {"queue": "train", "pool": "serving", "pods": 8, "gpus": 1, "at": "1m", "duration": "8m"}
    made = setup(
        stack(pools={"serving": pool}, queues=queues, models=_one_of_each()), jobs={"a": job, "b": job}, horizon="16m"
    )
    one_by_one, _ = run(made, "kubeScheduler")
    gangs, _ = run(made, "tripleLayer")
    assert one_by_one.gpu_seconds["partialGang"] > 2 * 60
    assert gangs.gpu_seconds["partialGang"] == 0


def _one_of_each() -> dict:  # type: ignore[type-arg]
    made = stack().models["chat"].model_dump(by_alias=True, exclude_unset=True, mode="json")
    made["roles"] = {
        "prefill": role("chat-prefill", 2, 1, 1, {"backlog": "1s", "tokensPerSecond": 10000}),
        "decode": role("chat-decode", 4, 1, 1, {"kvUsage": "70%"}),
    }
    return {"chat": made}


def test_consolidation_moves_pods_that_wanted_to_stay() -> None:
    made = setup(arrivals=arrivals("burst", 2.0, peak=14.0, at="2m", duration="8m"), horizon="1h")
    calm, _ = run(made, "tripleLayer")
    moved, _ = run(made, "consolidating")
    assert calm.evictions == {}
    assert moved.evictions.get("Underutilized", 0) > 0
    assert moved.dollars < calm.dollars


def test_same_seed_same_run_and_another_seed_another() -> None:
    made = setup(arrivals=BURST, horizon="20m")
    first, again, other = run(made)[0], run(made)[0], run(made, seed=1)[0]
    assert first.events == again.events
    assert first.outcomes.finish.tobytes() == again.outcomes.finish.tobytes()
    assert first.gpu_seconds == again.gpu_seconds
    assert first.events != other.events
