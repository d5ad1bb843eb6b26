"""Judgements on whether pods can land on the pools there are."""

from triplane.inventory.placement import Placement
from triplane.inventory.workloads import Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail


@rule(
    "WL501",
    "gpu-pods-tolerate-the-taints-of-a-gpu-pool",
    on=Workload,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Add a toleration for the pool's taint, with operator Exists so that any value matches.",
    sources=(
        "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        "https://github.com/aws/karpenter-provider-aws/issues/7574",
    ),
)
def gpu_pods_tolerate_the_taints_of_a_gpu_pool(workload: Workload, context: Context) -> Verdicts:
    """A pod that asks for GPUs must tolerate the taints of a pool that has them.

    GPU pools are tainted so that other pods stay away. Without the toleration the pod is pending for ever, and
    Karpenter says only that no NodePool is compatible. Judged where the input holds a GPU pool that would otherwise do;
    where labels stand in the way, WL504 speaks.
    """
    placement = context.inventory.relation(Placement)
    for template in workload.templates:
        if not template.gpus:
            continue
        if placement.possible(template):
            continue
        found = placement.fits(template)
        near = [fit for fit in found if fit.pools[0].gpu and all(kind == "taint" for kind, _ in fit.misfits)]
        if near:
            taints = ", ".join(sorted({what for fit in near for _, what in fit.misfits}))
            yield fail(
                (*template.path, "tolerations"),
                template.spec.get("tolerations"),
                f"the pods tolerate no GPU pool's taints ({taints}), so they stay pending",
                related=tuple(pool.resource for fit in near for pool in fit.pools),
            )
