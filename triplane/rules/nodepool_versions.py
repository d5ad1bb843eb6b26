"""Judgements on NodePool fields that the cluster's Karpenter does not know, or no longer knows."""

from collections.abc import Iterator

from triplane import catalog
from triplane.documents import Path
from triplane.inventory import NodePool
from triplane.inventory.fields import at
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdicts, fail


@rule(
    "NP119",
    "pool-uses-only-fields-its-karpenter-has",
    on=NodePool,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    parameters=("karpenter",),
    fix="Leave the field out, or upgrade Karpenter first.",
    versions="Judged against the parameter `karpenter`, 1.9 to 1.15.",
    sources=("https://karpenter.sh/docs/upgrading/upgrade-guide/", "https://github.com/datreeio/CRDs-catalog/pull/924"),
)
def pool_uses_only_fields_its_karpenter_has(pool: NodePool, context: Context) -> Verdicts:
    """A NodePool must not use what the cluster's Karpenter does not know.

    The API server refuses an unknown enum value and drops an unknown field, so that the old object stays in force, or
    the protection one wrote is not there. Up to 1.14 a `disruption` block also needs its consolidateAfter.
    """
    if pool.v1beta1:
        return
    version = context.parameters.karpenter
    for path, found, feature in _used(pool):
        if not catalog.supports("karpenter", version, feature):
            since = catalog.feature("karpenter", feature).since
            yield fail(path, found, f"Karpenter {version} refuses or ignores this; it came with {since}")
    disruption = at(pool.spec, "disruption")
    optional = catalog.supports("karpenter", version, "consolidate-after-default")
    if isinstance(disruption, dict) and "consolidateAfter" not in disruption and not optional:
        path = ("spec", "disruption", "consolidateAfter")
        consequence = f"Karpenter {version} refuses a disruption block without it"
        yield fail(path, None, consequence, fix="Write consolidateAfter: 1h.")


def _used(pool: NodePool) -> Iterator[tuple[Path, object, str]]:
    """(path, value, catalogue feature) of each thing the pool uses that has not always been there."""
    if pool.consolidation_policy == "Balanced":
        yield ("spec", "disruption", "consolidationPolicy"), "Balanced", "balanced"
    for budget in pool.budgets or ():
        if "Unhealthy" in (budget.reasons or ()):
            yield (*budget.path, "reasons"), "Unhealthy", "unhealthy-budget"
    for requirement in pool.requirements:
        if requirement.operator in ("Gte", "Lte"):
            yield (*requirement.path, "operator"), requirement.operator, "gte-lte"
    if pool.static:
        yield ("spec", "replicas"), at(pool.spec, "replicas"), "static-capacity"


@rule(
    "NP121",
    "pool-is-written-for-karpenter-v1",
    on=NodePool,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Write the v1 form: https://karpenter.sh/docs/upgrading/v1-migration/.",
    autofix=True,
    versions="v1beta1 is no longer served since Karpenter 1.1.",
    sources=(
        "https://karpenter.sh/docs/upgrading/v1-migration/",
        "https://github.com/kubernetes-sigs/karpenter/pull/1587",
        "https://github.com/mitodl/ol-infrastructure/pull/3766",
    ),
)
def pool_is_written_for_karpenter_v1(pool: NodePool, context: Context) -> Verdicts:
    """A NodePool must not carry words or fields of v1beta1.

    The v1 API knows neither WhenUnderutilized nor spec.disruption.expireAfter: the first is refused, the second dropped
    without a word, so that nodes expire after the default 720h although the file says Never. Whoever meant to calm a
    pool with such a change keeps the old, unsafe pool instead.
    """
    if pool.v1beta1:
        yield fail(("apiVersion",), pool.resource.api_version, "Karpenter 1.1 and later no longer serve this version")
        return
    if pool.consolidation_policy == "WhenUnderutilized":
        path: Path = ("spec", "disruption", "consolidationPolicy")
        yield fail(
            path, "WhenUnderutilized", "the v1 API refuses this word of v1beta1, and the old pool stays in force"
        )
    moved = at(pool.spec, "disruption", "expireAfter")
    if moved is not None:
        old: Path = ("spec", "disruption", "expireAfter")
        new: Path = ("spec", "template", "spec", "expireAfter")
        edits = (Edit(old, remove=True), Edit(new, moved)) if at(pool.spec, *new[1:]) is None else ()
        yield fail(
            old,
            moved,
            "v1 drops it here, and the default of 720h, forceful, holds",
            fix=f"Move it to spec.template.spec.expireAfter: {moved}.",
            edits=edits,
        )
    kubelet = at(pool.spec, "template", "spec", "kubelet")
    if kubelet is not None:
        yield fail(
            ("spec", "template", "spec", "kubelet"), kubelet, "v1 drops it here; it belongs to the node class since 1.0"
        )
