"""Judgements on what protects running pods, and what only seems to."""

from triplane import catalog
from triplane.documents import Path
from triplane.inventory.fields import duration, known
from triplane.inventory.workloads import Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdicts, fail, unknown

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DEAD_KEYS = ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate")
POD_KEYS = (DO_NOT_DISRUPT, "karpenter.sh/disruption-cost")


@rule(
    "WL507",
    "do-not-disrupt-is-spelled-so-that-karpenter-reads-it",
    on=Workload,
    severity=Severity.ERROR,
    profile=Profile.CORE,
    parameters=("karpenter",),
    fix='Write karpenter.sh/do-not-disrupt: "true" on the pod template.',
    autofix=True,
    versions="A duration such as 30m counts since Karpenter 1.12.",
    sources=(
        "https://karpenter.sh/docs/concepts/disruption/#pod-level-controls",
        "https://github.com/kyverno/policies/issues/1277",
    ),
)
def do_not_disrupt_is_spelled_so_that_karpenter_reads_it(workload: Workload, context: Context) -> Verdicts:
    """A pod's protection must be written in the words Karpenter reads.

    Karpenter honours exactly "true" and, since 1.12, a positive Go duration. Anything else ("True", "yes", "1d", a bare
    boolean) counts as absent, and the keys of old releases (do-not-evict, do-not-consolidate) do nothing at all: the
    pod looks protected and is evicted. "false" is a way of saying no, and passes.
    """
    durations = catalog.supports("karpenter", context.parameters.karpenter, "do-not-disrupt-duration")
    for template in workload.templates:
        for key, value in template.annotations.items():
            path: Path = (*template.metadata_path, "annotations", key)
            if key in DEAD_KEYS:
                right: Path = (*template.metadata_path, "annotations", DO_NOT_DISRUPT)
                yield fail(
                    path,
                    value,
                    "Karpenter no longer reads this key, so the pod is not protected",
                    edits=(Edit(path, remove=True), Edit(right, "true")),
                )
            elif key == DO_NOT_DISRUPT:
                if not _read(known(value), durations):
                    edits = (Edit(path, "true"),) if str(value).lower() in ("true", "yes") else ()
                    yield fail(path, value, "Karpenter ignores this value, so the pod is not protected", edits=edits)
            elif key.startswith("karpenter.sh/") and key not in POD_KEYS:
                yield unknown(path, "Karpenter has no pod annotation of this name; is it a slip?")


def _read(value: object, durations: bool) -> bool:
    """Whether Karpenter understands the value (pkg/utils/pod/scheduling.go IsDoNotDisruptActive)."""
    if value in ("true", "false") and isinstance(value, str):
        return True
    seconds = duration(value) if durations and isinstance(value, str) else None
    return seconds is not None and seconds > 0
