"""Judgements on what autoscalers scale."""

from triplane.inventory import Scaler
from triplane.inventory.scaling import Scaling
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail, unknown


@rule(
    "AS415",
    "scale-target-exists",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    parameters=("external", "missing_references"),
    fix="Correct the reference, or list the target under `external` if it lives elsewhere.",
    sources=(
        "https://github.com/zegl/kube-score/issues/332",
        "https://github.com/stackrox/kube-linter/issues/932",
    ),
)
def scale_target_exists(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler must refer to an object that exists.

    A misspelled kind or name leaves the target at its replicas for ever, and nothing but an event says so. Whether the
    target exists can only be known when the whole stack is looked at: a target that is not in the input is therefore
    unknown, unless the parameter missing_references says that the input is complete.
    """
    target = scaler.target
    if target is None or context.inventory.relation(Scaling).target(scaler) is not None:
        return
    if context.parameters.is_external(target.kind, target.name):
        return
    what = f"{target.kind.partition('.')[0]} {target.name}"
    if context.parameters.missing_references == "fail":
        yield fail(target.path, what, "there is no such object, so nothing is scaled")
    else:
        yield unknown(target.path, f"{what} is not in the input")
