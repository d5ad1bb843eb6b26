"""Judgements on gangs: PodGroups, topology and what happens when a member is lost."""

import math

from triplane import catalog
from triplane.documents import Path
from triplane.inventory import kinds
from triplane.inventory.capacity import Landing
from triplane.inventory.fields import duration, text
from triplane.inventory.gangs import PodGroup, SubGroup, Topology, gang_of
from triplane.inventory.nodepools import ZONE
from triplane.inventory.placement import Placement, admits
from triplane.inventory.queues import SCHEDULER
from triplane.inventory.workloads import Workload
from triplane.rules.queue_membership import missing
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown

KAI = "https://github.com/kai-scheduler/KAI-Scheduler"
TOPOLOGY_DOCS = f"{KAI}/blob/main/docs/topology/multilevel.md"
TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
STALENESS = "kai.scheduler/staleness-grace-period"
DEFAULT_STALENESS = 60.0  # scheduler flag default-staleness-grace-period, KAI 0.17
HOST = "kubernetes.io/hostname"


def _on_kai(workload: Workload) -> bool:
    return any(template.scheduler == SCHEDULER for template in workload.templates)


def _annotation(key: str) -> Path:
    return ("metadata", "annotations", key)


def _topology(workload: Workload, context: Context) -> Topology | None:
    name = text(workload.annotations.get(TOPOLOGY)) or ""
    found = context.inventory.find(kinds.TOPOLOGY, name) if name else None
    return found.view(Topology) if found is not None else None


@rule(
    "QU315",
    "gang-fits-the-domain-it-requires",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("gangs", "instance_table", "topology_domains"),
    fix="Prefer the level instead of requiring it, require a wider one, or make the gang smaller.",
    sources=(TOPOLOGY_DOCS,),
)
def gang_fits_the_domain_it_requires(workload: Workload, context: Context) -> Verdicts:
    """A gang that must stay within one topology domain must fit the largest there can be.

    A required level is kept for ever: a gang of 16 GPUs that requires one host of 8 is never placed. The largest host
    is known from the node pools, the largest zone is at most all they may have; how large racks and blocks are is said
    by `topology_domains`.
    """
    written = text(workload.annotations.get(REQUIRED))
    gang = gang_of(workload, context.parameters.lists(context.parameters.gangs, workload.resource))
    if not written or not gang.gpus or not _on_kai(workload):
        return
    topology = _topology(workload, context)
    level = topology.levels.get(written, written) if topology else written
    landing, parameters = context.inventory.relation(Landing), context.parameters
    places = (landing.of(template) for template, _ in gang.members if template.gpus)
    pools = dict.fromkeys(pool for place in places if place is not None for pool in place.pools)
    rooms = [landing.room(pool, parameters.instance_table) for pool in pools]
    if level in parameters.topology_domains:
        largest = float(parameters.topology_domains[level])
    elif not rooms:
        return
    elif level == HOST:
        largest = max(float(room.sizes[-1]) if room.sizes else math.inf for room in rooms)
    elif level == ZONE:
        largest = sum(room.gpus for room in rooms)
    else:
        yield unknown(
            _annotation(REQUIRED), f"how many GPUs a domain of {level} has is not known: see topology_domains"
        )
        return
    if gang.gpus > largest:
        yield fail(
            _annotation(REQUIRED),
            written,
            f"the gang has {gang.gpus:g} GPUs and the largest domain {largest:g}, so it is never placed",
            related=tuple(pool.resource for pool in pools),
        )


@rule(
    "QU316",
    "topology-a-workload-asks-for-exists-on-its-nodes",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("external", "missing_references"),
    fix="Name a Topology that exists and one of its levels, on the workload itself; label the node pool for the level.",
    versions="Levels may be named by an alias since KAI 0.17.",
    sources=(TOPOLOGY_DOCS,),
)
def topology_a_workload_asks_for_exists_on_its_nodes(workload: Workload, context: Context) -> Verdicts:
    """The topology and level a workload asks for must exist, and its nodes must carry the level's label.

    KAI reads the annotations of the topmost owner only: on a pod template they are ignored. A level that the Topology
    does not list is an error in the scheduler's log and a bare "unable to schedule" on the pods, and nodes without a
    level's label are outside every domain. A label that neither the cloud nor Karpenter writes must be in the pool's
    template.
    """
    if not _on_kai(workload):
        return
    for template in workload.templates:
        for key in (TOPOLOGY, REQUIRED, PREFERRED):
            if key in template.annotations and key not in workload.annotations and workload.kind != "Pod":
                path = (*template.metadata_path, "annotations", key)
                consequence = "KAI reads this of the workload itself only, so the pods are placed anywhere"
                yield fail(path, text(template.annotations.get(key)), consequence)
    name = text(workload.annotations.get(TOPOLOGY))
    asked = [(key, level) for key in (REQUIRED, PREFERRED) if (level := text(workload.annotations.get(key)))]
    if not name:
        return
    topology = _topology(workload, context)
    if topology is None:
        if not context.parameters.is_external(kinds.TOPOLOGY, name):
            yield missing(_annotation(TOPOLOGY), f"Topology {name}", "its pods are never placed", context)
        return
    if not asked:
        consequence = "no level is asked for, which KAI takes for an error: its pods are never placed"
        yield fail(_annotation(TOPOLOGY), name, consequence, related=(topology.resource,))
    placement = context.inventory.relation(Placement)
    fits = (fit for template in workload.templates if template.gpus for fit in placement.possible(template))
    pools = [fit.pools[0] for fit in fits]  # the others of a fit are like the first
    for key, level in asked:
        label = topology.levels.get(level)
        if label is None:
            levels = ", ".join(topology.levels) or "none"
            consequence = f"Topology {name} has no such level ({levels}), so its pods are never placed"
            yield fail(_annotation(key), level, consequence, related=(topology.resource,))
        elif pools and not any(admits(pool, label, "Exists", ()) for pool in pools):
            consequence = f"no node it can land on has the label {label}, so all are outside every domain"
            yield fail(_annotation(key), level, consequence, related=tuple(dict.fromkeys(p.resource for p in pools)))


@rule(
    "QU317",
    "gang-outlives-the-replacement-of-a-node",
    on=Workload,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("cold_start", "kai"),
    fix="Annotate the workload: kai.scheduler/staleness-grace-period longer than a cold start, or negative for never.",
    versions="Since KAI 0.17; before, only the scheduler's flag default-staleness-grace-period changes it for all.",
    sources=(f"{KAI}/issues/1913", f"{KAI}/issues/1968"),
)
def gang_outlives_the_replacement_of_a_node(workload: Workload, context: Context) -> Verdicts:
    """A gang that loses a member should wait for the node that replaces the lost one.

    With fewer pods than its minimum a gang is stale, and after 60 seconds KAI deletes all its pods. A new GPU node
    takes minutes, so that one lost node costs the loading of the whole gang and not of one pod.
    """
    parameters = context.parameters
    if not catalog.supports("kai", parameters.kai, "staleness-grace-period") or not _on_kai(workload):
        return
    gang = gang_of(workload)
    if gang.pods < 2 or not gang.gpus:
        return
    written = workload.annotation(STALENESS) or None
    seconds = duration(written) if written else None
    # A value KAI cannot read is passed over, and the default holds.
    if 0 <= (DEFAULT_STALENESS if seconds is None else seconds) < parameters.cold_start:
        consequence = f"a lost pod needs {parameters.cold_start} to come back, and all {gang.pods} are deleted before"
        yield fail(_annotation(STALENESS), written, consequence, default="60s")


@rule(
    "QU321",
    "pod-group-minimum-can-be-reached",
    on=PodGroup,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Write minMember where there are pods, minSubGroup where there are subgroups, and no more than there are.",
    versions="minSubGroup since KAI 0.15.",
    sources=(f"{KAI}/blob/main/pkg/apis/scheduling/v2alpha2/podgroup_webhook.go",),
)
def pod_group_minimum_can_be_reached(group: PodGroup, context: Context) -> Verdicts:
    """A PodGroup must ask for a minimum that its members can reach.

    KAI's webhook refuses a group or subgroup with both minimums, names that occur twice, parents that do not exist or
    form a circle, and a subgroup without children that has no minMember. It lets pass, with a warning, a minSubGroup
    above the number of subgroups: such a group is never ready, and nothing but an event says why. How many pods there
    will be is not written in the group, so minMember itself cannot be judged.
    """
    if group.min_member is not None and group.min_sub_group is not None:
        yield fail(("spec", "minSubGroup"), group.min_sub_group, "KAI refuses a group that has minMember as well")
    subs = group.sub_groups
    children: dict[str, list[SubGroup]] = {}
    for sub in subs:
        children.setdefault(sub.parent, []).append(sub)
    if group.min_sub_group is not None and group.min_sub_group > len(children.get("", ())):
        there = len(children.get("", ()))
        yield fail(("spec", "minSubGroup"), group.min_sub_group, f"there are {there} subgroups, so it is never ready")
    names: set[str] = set()
    by_name = {sub.name: sub for sub in subs}
    for sub in subs:
        if sub.name in names:
            yield fail((*sub.path, "name"), sub.name, "the name occurs twice, and KAI refuses the group")
        names.add(sub.name)
        if sub.parent and (sub.parent not in by_name or _circular(sub, by_name)):
            consequence = "no subgroup leads from here to the top, and KAI refuses the group"
            yield fail((*sub.path, "parent"), sub.parent, consequence)
        below = children.get(sub.name, [])
        if sub.min_member is not None and sub.min_sub_group is not None:
            yield fail((*sub.path, "minSubGroup"), sub.min_sub_group, "KAI refuses a subgroup with minMember as well")
        elif not below and sub.min_member is None:
            yield fail((*sub.path, "minMember"), None, "KAI refuses a subgroup of pods without it")
        elif below and sub.min_sub_group is not None and sub.min_sub_group > len(below):
            consequence = f"it has {len(below)} subgroups, so the group is never ready"
            yield fail((*sub.path, "minSubGroup"), sub.min_sub_group, consequence)


def _circular(sub: SubGroup, by_name: dict[str, SubGroup]) -> bool:
    seen: set[str] = set()
    while sub.parent in by_name and sub.name not in seen:
        seen.add(sub.name)
        sub = by_name[sub.parent]
    return sub.name in seen
