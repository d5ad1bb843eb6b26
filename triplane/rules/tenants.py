"""Questions that several judgements ask about the pods of a pool."""

from triplane.inventory import NodePool, Resource
from triplane.inventory.fabric import EFA
from triplane.inventory.fields import duration, number, text
from triplane.inventory.gangs import gang_of
from triplane.inventory.tenants import Tenants
from triplane.inventory.workloads import PodTemplate, Workload
from triplane.rules.parameters import Parameters
from triplane.rules.rule import Context

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
# Kubernetes' default for terminationGracePeriodSeconds.
_GRACE_SECONDS = 30.0


def gang_on(pool: NodePool, context: Context) -> Resource | None:
    """A workload with pods on the pool that only make sense together: by its kind, or because a parameter says so."""
    found = context.inventory.relation(Tenants).first(pool, _is_gang, context.parameters.gangs)
    return found[0].resource if found else None


def protected_on(pool: NodePool, context: Context) -> Resource | None:
    """A workload whose pods forbid disruption and can land on the pool."""
    found = context.inventory.relation(Tenants).first(pool, _is_protected)
    return found[0].resource if found else None


def patient_on(pool: NodePool, seconds: float, context: Context) -> Resource | None:
    """A workload on the pool whose pods are given more than so many seconds to end."""
    found = context.inventory.relation(Tenants).first(pool, _ends_within, seconds)
    return found[0].resource if found else None


def efa_user_on(pool: NodePool, context: Context) -> Resource | None:
    """A workload on the pool whose pods ask for EFA adapters."""
    found = context.inventory.relation(Tenants).first(pool, _asks_for_efa)
    return found[0].resource if found else None


def trains(pool: NodePool, context: Context) -> tuple[bool, tuple[Resource, ...]]:
    """Whether losing one node of the pool ends the work of others: a training pool, or one that a gang can land on."""
    if pool.purpose == "training":
        return True, ()
    gang = gang_on(pool, context)
    return gang is not None, (gang,) if gang is not None else ()


def spans_nodes(workload: Workload, template: PodTemplate, sizes: tuple[int, ...], listed: tuple[str, ...]) -> bool:
    """Whether a workload's pods only make sense together and are too large for one node of these GPU counts."""
    gang = gang_of(workload, Parameters.lists(listed, workload.resource))
    return bool(sizes) and gang.pods > 1 and gang.gpus > sizes[-1]


def _is_gang(workload: Workload, template: PodTemplate, listed: tuple[str, ...]) -> bool:
    return gang_of(workload, Parameters.lists(listed, workload.resource)).pods > 1


def _is_protected(workload: Workload, template: PodTemplate) -> bool:
    written = text(template.annotations.get(DO_NOT_DISRUPT))
    return written == "true" or bool(duration(written))


def _asks_for_efa(workload: Workload, template: PodTemplate) -> bool:
    return bool(template.requested(EFA))


def _ends_within(workload: Workload, template: PodTemplate, seconds: float) -> bool:
    grace = number(template.spec.get("terminationGracePeriodSeconds"))
    return (_GRACE_SECONDS if grace is None else grace) > seconds
