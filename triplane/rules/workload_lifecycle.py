"""Judgements on how serving pods start, end and are rolled out."""

from collections.abc import Iterator
from typing import Any

from triplane.documents import Path
from triplane.inventory.capacity import Landing
from triplane.inventory.engines import engine_of, serves
from triplane.inventory.fields import at, mapping, number
from triplane.inventory.gangs import LEADER_WORKER_SET
from triplane.inventory.queueing import Queueing, queue_of
from triplane.inventory.queues import QueueTree
from triplane.inventory.resource import Resource
from triplane.inventory.selectors import scaled
from triplane.inventory.standing import Standing
from triplane.inventory.workloads import Workload
from triplane.rules.parameters import Duration
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

PROBES = "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/"
DEPLOYMENT = "Deployment.apps"
STRATEGY: Path = ("spec", "strategy")
LWS_ROLLING: Path = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
_QUARTERS: dict[str, Any] = {"maxSurge": "25%", "maxUnavailable": "25%"}
_ONE_AT_A_TIME: dict[str, Any] = {"maxSurge": 0, "maxUnavailable": 1}


@rule(
    "WL508",
    "serving-pods-may-finish-their-answers",
    on=Workload,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("min_termination_grace",),
    fix="Raise terminationGracePeriodSeconds to the longest answer, with a preStop hook that waits out late requests.",
    sources=("https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination",),
)
def serving_pods_may_finish_their_answers(workload: Workload, context: Context) -> Verdicts:
    """A pod that serves should be given the time its longest answer takes.

    A scaler that goes down, a rollout and a drain all end pods in the midst of answers. After
    terminationGracePeriodSeconds, 30 by default, the engine is killed and every stream it holds breaks off. Requests
    still arrive for some seconds after the pod was told to stop, so the grace must cover these too.
    """
    needed = context.parameters.min_termination_grace
    for template in workload.templates:
        written = number(template.spec.get("terminationGracePeriodSeconds"))
        if serves(workload, template) and (30.0 if written is None else written) < needed:
            yield fail(
                (*template.path, "terminationGracePeriodSeconds"),
                written,
                f"answers that take longer break off; {needed} are allowed for",
                default="30",
            )


def _seconds(probe: object, delay: bool) -> float:
    """Seconds until a probe that never succeeds ends its container. Defaults: delay 0, period 10, failures 3."""
    period, failures = number(at(probe, "periodSeconds")) or 10.0, number(at(probe, "failureThreshold")) or 3.0
    return period * failures + ((number(at(probe, "initialDelaySeconds")) or 0.0) if delay else 0.0)


@rule(
    "WL509",
    "probes-wait-for-the-model",
    on=Workload,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("cold_start",),
    fix="Add a startupProbe whose failureThreshold times periodSeconds covers loading the model.",
    sources=(PROBES, "https://docs.vllm.ai/en/latest/deployment/k8s.html"),
)
def probes_wait_for_the_model(workload: Workload, context: Context) -> Verdicts:
    """No probe should end a container that is still loading its model.

    An engine answers its health check only once the model is loaded, which takes minutes. A livenessProbe counts from
    the start, so it kills the container, which begins to load again, for ever. A startupProbe holds it back, and itself
    kills when its failures are used up. Measured against `cold_start`, which is longer than the loading alone: what is
    too much waiting here costs nothing, since both probes end at the first success. Without a livenessProbe nothing
    needs holding back; one whose own delay and failures cover the cold start passes.
    """
    needed = context.parameters.cold_start
    for template in workload.templates:
        for container in template.containers:
            loads = container.gpus or (template.uses_gpu and engine_of(container))
            if container.init or workload.finishes or not loads:
                continue
            startup, liveness = container.data.get("startupProbe"), container.data.get("livenessProbe")
            probe = mapping(startup) or mapping(liveness)
            waits = _seconds(probe, delay=True)
            if probe and waits < needed:
                kind = "startupProbe" if startup else "livenessProbe"
                yield fail(
                    (*container.path, "startupProbe"),
                    startup,
                    f"its {kind} ends a container after {Duration(waits)}, and a cold start takes {needed}",
                )


def _surge(workload: Workload, replicas: int) -> tuple[int, int, Path] | None:
    """Replicas that a rollout adds, and takes away first, and where that stands; None: it adds none.

    Kubernetes 1.34 pkg/controller/deployment/util (ResolveFenceposts): 25 % each by default, the surge rounded up, the
    unavailable down, and 1 unavailable where both are 0. A LeaderWorkerSet adds none and takes one by default.
    """
    if workload.kind == DEPLOYMENT:
        strategy = mapping(workload.spec.get("strategy"))
        if strategy.get("type") == "Recreate":
            return None
        rolling, path, by_default = strategy.get("rollingUpdate"), STRATEGY, _QUARTERS
    elif workload.kind == LEADER_WORKER_SET:
        rolling, path, by_default = at(workload.resource.data, *LWS_ROLLING), LWS_ROLLING, _ONE_AT_A_TIME
    else:
        return None
    written = {**by_default, **mapping(rolling)}
    surge = scaled(written["maxSurge"], replicas, up=True) or 0
    taken = scaled(written["maxUnavailable"], replicas, up=False) or 0
    return (surge, taken, path) if surge > 0 else None


@rule(
    "WL517",
    "rollout-fits-beside-what-runs",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("instance_table", "other_gpus"),
    fix="Set maxSurge: 0 and maxUnavailable: 1, or leave room for one more replica.",
    sources=(
        "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment",
        "https://github.com/ai-runway/airunway/issues/400",
        "https://github.com/defilantech/LLMKube/issues/192",
    ),
)
def rollout_fits_beside_what_runs(workload: Workload, context: Context) -> Verdicts:
    """A rollout that starts the new replica before it ends an old one needs the GPUs of both.

    Up to three replicas a Deployment does so by default: 25 % surge rounds up to one, 25 % unavailable rounds down to
    none. Where the pools or the queue are full with what runs already, the new pod stays pending, the old one is kept
    until it is ready, and the rollout stands still for ever. Counted at the fewest replicas of everything that shares
    the pools, or the queue; a rollout that may take a replica away first gets through, also where a pod more of it is
    pending for a while.
    """
    standing = context.inventory.relation(Standing)
    rollout = _surge(workload, standing.replicas(workload)) if workload.gpus_per_replica else None
    if rollout is None or rollout[1] > 0:
        return
    surge, _, path = rollout
    more = surge * workload.gpus_per_replica
    for limit, used, what in (*_pool_bound(workload, context), *_queue_bounds(workload, context)):
        if used <= limit < used + more:
            yield fail(
                path,
                at(workload.resource.data, *path),
                f"a rollout first needs {more:g} GPUs more than the {used:g} in use, and {what[0]} ends at {limit:g}",
                default="one replica more at first",
                related=what,
            )
            return


Bound = tuple[float, float, tuple[Resource, ...]]


def _pool_bound(workload: Workload, context: Context) -> Iterator[Bound]:
    """The GPUs of the pools a workload's pods can land on, those in use there, and the pools."""
    landing, parameters = context.inventory.relation(Landing), context.parameters
    places = {place for template in workload.templates if template.gpus and (place := landing.of(template)) is not None}
    if len(places) == 1:  # roles that land apart each have their own room
        place = places.pop()
        gpus = parameters.other_gpus + landing.gpus(place, parameters.instance_table)
        yield gpus, context.inventory.relation(Standing).on(place), tuple(pool.resource for pool in place.pools)


def _queue_bounds(workload: Workload, context: Context) -> Iterator[Bound]:
    """What each queue on the way up may use, and uses; what KAI may not preempt is bound by the quota."""
    standing, queueing = context.inventory.relation(Standing), context.inventory.relation(Queueing)
    for queue in context.inventory.relation(QueueTree).way_up(queue_of(workload)):
        share = queue.share("gpu")
        yield share.limit, standing.in_queue(queue.name), (queue.resource,)
        if not queueing.preemptible(workload):
            yield share.quota, standing.in_queue(queue.name, guaranteed=True), (queue.resource,)
