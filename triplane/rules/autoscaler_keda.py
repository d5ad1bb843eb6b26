"""Judgements on what is written in a ScaledObject and means something else to KEDA."""

from triplane.documents import Path
from triplane.inventory import Scaler, kinds
from triplane.inventory.fields import at, number, quantity, text
from triplane.inventory.scaling import minimum
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Edit, Verdict, Verdicts, fail

# Fields of `spec` that people write among a trigger's metadata, where they are free text that no scaler reads.
SPEC_FIELDS = ("minReplicaCount", "maxReplicaCount", "idleReplicaCount", "pollingInterval", "cooldownPeriod")
# An HPA's names for KEDA's bounds, and the other way round: the API server drops the one the kind does not have.
HPA_NAMES = {"minReplicas": "minReplicaCount", "maxReplicas": "maxReplicaCount"}
KEDA_NAMES = {of_keda: of_hpa for of_hpa, of_keda in HPA_NAMES.items()}


@rule(
    "AS424",
    "bounds-stand-where-they-are-read",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Move the value to the field of spec that the kind reads.",
    autofix=True,
    sources=(
        "https://github.com/kedacore/keda/issues/2479",
        "https://keda.sh/docs/2.20/reference/scaledobject-spec/",
    ),
)
def bounds_stand_where_they_are_read(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler's bounds must stand where its controller reads them.

    A trigger's metadata is a free map of text: a maxReplicaCount in it is accepted and read by nobody, and KEDA's
    default of 100 holds. An HPA's minReplicas in a ScaledObject, or KEDA's names in an HPA, are dropped by the API
    server, without an error where validation is not strict.
    """
    for trigger in scaler.triggers:
        for name in SPEC_FIELDS:
            if name in trigger.metadata:
                path: Path = (*trigger.path, "metadata", name)
                yield _move(scaler, path, trigger.says(name), ("spec", name), "KEDA reads no such key of a trigger")
    names = HPA_NAMES if scaler.keda else KEDA_NAMES if scaler.kind == kinds.HPA else {}
    for wrong, right in names.items():
        if wrong in scaler.spec:
            consequence = f"a {scaler.resource.kind_name} has no such field, so it is dropped"
            yield _move(scaler, ("spec", wrong), scaler.spec[wrong], ("spec", right), consequence)


def _move(scaler: Scaler, wrong: Path, found: object, right: Path, consequence: str) -> Verdict:
    amount = quantity(found)
    if scaler.kind == kinds.LLM_INFERENCE_SERVICE:
        return fail(wrong, found, consequence)
    movable = amount is not None and amount.is_integer() and at(scaler.resource.data, *right) is None
    edits = (Edit(wrong, remove=True), Edit(right, int(amount or 0))) if movable else ()
    return fail(wrong, found, consequence, fix=f"Write spec.{right[-1]} instead.", edits=edits)


@rule(
    "AS425",
    "trigger-metadata-is-text",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Quote the value.",
    autofix=True,
    sources=(
        "https://github.com/kedacore/keda-docs/pull/1592",
        "https://github.com/kedacore/keda-docs/pull/1649",
    ),
)
def trigger_metadata_is_text(scaler: Scaler, context: Context) -> Verdicts:
    """Every value of a trigger's metadata must be text.

    The field is a map of text to text. A bare number, true or false makes the API server refuse the whole object, and
    whatever was there before keeps scaling.
    """
    for trigger in scaler.triggers:
        for key, value in trigger.metadata.items():
            if value is None or text(value) is not None:
                continue
            path: Path = (*trigger.path, "metadata", key)
            written = trigger.says(key)
            edits = (Edit(path, written),) if written is not None else ()
            yield fail(path, value, "not text, so the API server refuses the object", edits=edits)


@rule(
    "AS426",
    "idle-count-is-zero-and-below-the-minimum",
    on=Scaler,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Leave idleReplicaCount out, or write 0 with a minimum of 1 or more.",
    sources=(
        "https://github.com/kedacore/keda/issues/2598",
        "https://github.com/kedacore/keda/issues/2314",
        "https://github.com/kedacore/keda/issues/8172",
    ),
)
def idle_count_is_zero_and_below_the_minimum(scaler: Scaler, context: Context) -> Verdicts:
    """KEDA's idleReplicaCount must be 0, and below minReplicaCount.

    KEDA refuses an idle count that is not below the minimum, also where the minimum is left out and 0. Another count
    than 0 is accepted and does not work: the HPA brings the count back to its minimum, KEDA sets it down again, and
    pods come and go.
    """
    idle = number(scaler.spec.get("idleReplicaCount")) if scaler.kind == kinds.SCALED_OBJECT else None
    if idle is None:
        return
    path: Path = ("spec", "idleReplicaCount")
    if idle >= minimum(scaler):
        yield fail(path, idle, f"it is not below the minimum of {minimum(scaler)}, so KEDA refuses the object")
    elif idle > 0:
        yield fail(path, idle, "the HPA goes back to its minimum each time, so pods come and go while idle")


@rule(
    "AS427",
    "cron-trigger-raises-the-minimum",
    on=Scaler,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Write the low count as minReplicaCount and let cron triggers raise it in the hours of load.",
    sources=(
        "https://github.com/kedacore/keda/issues/3609",
        "https://github.com/kedacore/keda/issues/6564",
        "https://github.com/kedacore/keda/issues/5586",
    ),
)
def cron_trigger_raises_the_minimum(scaler: Scaler, context: Context) -> Verdicts:
    """A cron trigger's desiredReplicas must be above minReplicaCount.

    Of all triggers the largest proposal counts, and never less than the minimum. A cron trigger with no more replicas
    than that lowers nothing: the night's saving does not happen. With 0 it even does the contrary, since an active
    trigger keeps one replica. A formula (scalingModifiers) may use the trigger's value in any way, and is left alone.
    """
    if scaler.kind != kinds.SCALED_OBJECT or text(at(scaler.spec, "advanced", "scalingModifiers", "formula")):
        return
    for trigger in scaler.triggers:
        desired = quantity(trigger.says("desiredReplicas")) if trigger.type == "cron" else None
        if desired is not None and desired <= minimum(scaler):
            path: Path = (*trigger.path, "metadata", "desiredReplicas")
            yield fail(path, desired, f"not above the minimum of {minimum(scaler)}, so this trigger changes nothing")
