"""Judgements on the requirements of a pool: names that mean nothing, and keys that constrain nothing."""

import re
from collections.abc import Iterator

from triplane import catalog
from triplane.inventory import NodePool
from triplane.inventory.nodepools import ARCH, AWS_DOMAINS, INSTANCE_TYPE, Requirement
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdict, Verdicts, fail

_GPU_FAMILY = re.compile(r"(g|gr|p)[0-9].*", re.IGNORECASE)
_UNLISTED = "p6e-gb200"


@rule(
    "NP118",
    "gpu-names-and-families-exist",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("instance_table",),
    fix="Write the name as AWS does, in lower case: h100, p5, p5.48xlarge.",
    autofix=True,
    sources=(
        "https://karpenter.sh/docs/reference/instance-types/",
        "https://github.com/aws/karpenter-provider-aws/issues/5073",
        "https://github.com/walidshaari/sample-aws-eks-auto-mode/blob/main/nodepool-templates/gpu-nodepool.yaml.tpl",
    ),
)
def gpu_names_and_families_exist(pool: NodePool, context: Context) -> Verdicts:
    """A requirement must name GPUs, families and instance types that exist.

    A value that matches nothing is accepted and simply never launches: `H100` instead of h100, a family g4 instead of
    g4dn. If it is the only one, pods wait for ever and the message speaks of no instance type at all; beside others it
    is a hope that never comes true. Judged against the catalogue's table of AWS GPU types (parameter `instance_table`
    adds to it); values that do not look like GPU families are left alone. p6e-gb200 exists, but Karpenter cannot
    launch it. A GPU family of x86 hosts under kubernetes.io/arch arm64 matches nothing either.
    """
    named = [requirement for requirement in pool.requirements if requirement.operator == "In"]
    for requirement in named:
        table = tuple(context.parameters.instance_table)
        strange = {i: value for i, value in enumerate(requirement.values) if not _exists(requirement.key, value, table)}
        if strange:
            path = (*requirement.path, "values")
            lower = all(_exists(requirement.key, value.lower(), table) for value in strange.values())
            edits = tuple(Edit((*path, i), value.lower()) for i, value in strange.items()) if lower else ()
            found = ", ".join(strange.values())
            yield fail(path, found, _why(requirement.key, next(iter(strange.values()))), edits=edits)
    if _only_arm(pool) and any(_all_x86(requirement) for requirement in named):
        (arch, *_) = pool.required(ARCH)
        yield fail((*arch.path, "values"), "arm64", "the GPUs asked for come with amd64 hosts only: nothing matches")


def _exists(key: str, value: str, table: tuple[str, ...]) -> bool:
    families = catalog.gpu_families()
    domain, _, name = key.partition("/")
    if key == INSTANCE_TYPE:
        family = value.partition(".")[0]
        if value in table or "." not in value or not _GPU_FAMILY.fullmatch(family):
            return True
        complete = {kind.family for kind in catalog.every_instance_type()}
        return family in families and (family not in complete or value in _type_names())
    if domain not in AWS_DOMAINS:
        return True
    if name == "instance-family":
        return value in families or not _GPU_FAMILY.fullmatch(value) or _in_table(value, table)
    if name == "instance-gpu-name":
        return value in families.values() or not _NVIDIA.fullmatch(value)
    return True


# What NVIDIA's data centre GPUs are called; other makers' names are no business of the catalogue.
_NVIDIA = re.compile(r"(nvidia[- ])?([abhltv][0-9]{1,4}[a-z]{0,2}|gb[0-9]{3}|rtx.*)([- _].*)?", re.IGNORECASE)


def _in_table(family: str, table: tuple[str, ...]) -> bool:
    return any(kind.partition(".")[0] == family for kind in table)


def _type_names() -> frozenset[str]:
    return frozenset(kind.name for kind in catalog.every_instance_type())


def _why(key: str, value: str) -> str:
    if value.startswith(_UNLISTED):
        return "Karpenter cannot launch it: UltraServers need ComputeDomains over DRA; use a managed node group"
    families = catalog.gpu_families()
    options = tuple(families.values()) if key.endswith("gpu-name") else tuple(families)
    if key == INSTANCE_TYPE:
        options = tuple(_type_names())
    near = catalog.nearest_names(value.lower(), tuple(dict.fromkeys(options)))
    guess = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"matches no instance type{guess}"


def _only_arm(pool: NodePool) -> bool:
    return any(r.operator == "In" and set(r.values) == {"arm64"} for r in pool.required(ARCH))


def _all_x86(requirement: Requirement) -> bool:
    families = {kind.family for kind in catalog.every_instance_type()}
    gpus = {kind.gpu_name for kind in catalog.every_instance_type()}
    domain, _, name = requirement.key.partition("/")
    if requirement.key == INSTANCE_TYPE:
        return bool(requirement.values) and all(value.partition(".")[0] in families for value in requirement.values)
    known = {"instance-family": families, "instance-gpu-name": gpus}.get(name, set())
    return domain in AWS_DOMAINS and bool(requirement.values) and known.issuperset(requirement.values)


_PROPERTIES = frozenset(
    f"instance-{name}"
    for name in (
        "tenancy", "encryption-in-transit-supported", "category", "hypervisor", "family", "generation", "local-nvme",
        "size", "cpu", "cpu-manufacturer", "cpu-sustained-clock-speed-mhz", "memory", "ebs-bandwidth",
        "network-bandwidth", "gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory", "accelerator-name",
        "accelerator-manufacturer", "accelerator-count", "capability-flex",
    )
)  # fmt: skip
_AWS_NAMES = _PROPERTIES | {
    "capacity-reservation-type",
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "ec2nodeclass",
    "nitro-sandbox",
    "placement-group-id",
    "placement-group-partition",
}
_CORE_KEYS = frozenset(
    (
        "karpenter.sh/capacity-type",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    )
)
_CORE_NAMES = frozenset(key.partition("/")[2] for key in _CORE_KEYS)


@rule(
    "NP123",
    "requirement-keys-are-known",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Write the provider's key, such as karpenter.k8s.aws/instance-family.",
    autofix=True,
    sources=(
        "https://karpenter.sh/docs/concepts/scheduling/#well-known-labels",
        "https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html",
        "https://github.com/aws/karpenter-provider-aws/issues/8064",
    ),
)
def requirement_keys_are_known(pool: NodePool, context: Context) -> Verdicts:
    """A requirement must use a key that its provider knows.

    Karpenter takes any other key for a label of the user's: `node.kubernetes.io/instance-family In [p5]` constrains
    nothing, and the cheapest machine of any family is launched and stamped with that label. Keys in Karpenter's own
    domains that are not on its list are refused by the API server. EKS Auto Mode has the same properties under
    eks.amazonaws.com; a pool whose keys and node class belong to different ones matches nothing. Labels of one's own
    domain, and the keys of other clouds' providers, are left alone.
    """
    for requirement in pool.requirements:
        yield from _judged(requirement, pool.node_class_group)


def _judged(requirement: Requirement, group: str) -> Iterator[Verdict]:
    key, path = requirement.key, (*requirement.path, "key")
    domain, _, name = key.rpartition("/")
    if domain in AWS_DOMAINS and group in AWS_DOMAINS and domain != group and name in _PROPERTIES:
        right = f"{group}/{name}"
        consequence = f"the node class is one of {group}, whose nodes do not carry this key: nothing matches"
        yield fail(path, key, consequence, fix=f"Write {right}.", edits=(Edit(path, right),))
    elif domain == "karpenter.k8s.aws" and name not in _AWS_NAMES:
        yield fail(path, key, f"the API server refuses this key{_meant(name, _AWS_NAMES, domain)}")
    elif domain == "eks.amazonaws.com" and name not in _AWS_NAMES and (meant := _meant(name, _PROPERTIES, domain)):
        yield fail(path, key, f"no node carries this key{meant}")
    elif domain == "karpenter.sh" and key not in _CORE_KEYS:
        yield fail(path, key, f"the API server refuses this key{_meant(name, frozenset(('capacity-type',)), domain)}")
    elif key not in _CORE_KEYS and _is_misplaced(domain, name):
        consequence = "a label like any other, it constrains nothing: the cheapest node of any kind carries it"
        right = next(
            (known for known in sorted(_CORE_KEYS, key=_by_age) if known.endswith(f"/{name}")),
            f"{group or AWS_DOMAINS[0]}/{name}",
        )
        yield fail(path, key, f"{consequence}; did you mean {right}?")


def _by_age(key: str) -> tuple[bool, str]:
    return "beta" in key, key


def _is_misplaced(domain: str, name: str) -> bool:
    """Whether a well-known property stands in a domain of Kubernetes' that has none of it."""
    return (not domain or domain.endswith("kubernetes.io")) and (name in _PROPERTIES or name in _CORE_NAMES)


def _meant(name: str, names: frozenset[str], domain: str) -> str:
    near = catalog.nearest_names(name, tuple(sorted(names)))
    return f"; did you mean {domain}/{near[0]}?" if near else ""
