"""Judgements on what autoscalers scale."""

from triplane.inventory import Inventory, Resource, Scaler, kinds
from triplane.inventory.children import Children
from triplane.inventory.fields import at, number, sequence, text
from triplane.inventory.roles import names_read
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import Workload
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


@rule(
    "AS406",
    "target-has-one-scaler",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Keep one: put both signals into one scaler, which takes the larger proposal.",
    sources=(
        "https://github.com/kedacore/keda/issues/5572",
        "https://github.com/kedacore/keda/issues/3087",
        "https://keda.sh/docs/2.20/concepts/scaling-deployments/",
    ),
)
def target_has_one_scaler(scaler: Scaler, context: Context) -> Verdicts:
    """Only one scaler may set the replicas of an object.

    Two of them write against each other at every sync: pods start and stop without a change of load, and each start
    costs a cold start. KEDA's webhook only notices when the ScaledObject comes second. References are compared with
    their defaults filled in.

    A ScaledObject that takes an HPA over by name is one scaler, as are the HPA that KEDA makes, and a
    VariantAutoscaling together with the HPA that follows it.
    """
    if not _sets_replicas(scaler):
        return
    rivals = [other for other in context.inventory.relation(Scaling).rivals(scaler) if _sets_replicas(other)]
    if scaler.target is None or not rivals:
        return
    # One finding for a target: on the last ScaledObject, else on the last scaler.
    own = _order(scaler, context.inventory)
    if any(_order(other, context.inventory) > own for other in rivals):
        return
    if len(rivals) == 1 and (_takes_over(scaler, rivals[0]) or _takes_over(rivals[0], scaler)):
        return
    what = f"{scaler.target.kind.partition('.')[0]} {scaler.target.name}"
    others = ", ".join(str(other.resource) for other in rivals[:3])
    related = tuple(other.resource for other in rivals[:3])
    yield fail(scaler.target.path, what, f"{others} scales it too, and each undoes what the other did", related=related)


def _sets_replicas(scaler: Scaler) -> bool:
    return scaler.kind != kinds.VARIANT_AUTOSCALING and not scaler.made_by


def _order(scaler: Scaler, inventory: Inventory) -> tuple[bool, int]:
    return scaler.keda, inventory.relation(Scaling).position(scaler)


def _takes_over(scaler: Scaler, other: Scaler) -> bool:
    """Whether a ScaledObject continues an HPA under its own name."""
    annotation = ("metadata", "annotations", "scaledobject.keda.sh/transfer-hpa-ownership")
    name = at(scaler.spec, "advanced", "horizontalPodAutoscalerConfig", "name")
    return (
        scaler.keda
        and other.kind == kinds.HPA
        and at(scaler.resource.data, *annotation) == "true"
        and name == other.resource.name
    )


@rule(
    "AS411",
    "scaled-object-leaves-its-replicas-to-the-scaler",
    on=Workload,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix='Leave replicas out, or in Pulumi keep it and set ignore_changes=["spec.replicas"].',
    sources=(
        "https://www.pulumi.com/docs/iac/concepts/resources/options/ignorechanges/",
        "https://github.com/kedacore/keda/issues/5572",
        "https://github.com/vllm-project/production-stack/pull/907",
    ),
)
def scaled_object_leaves_its_replicas_to_the_scaler(workload: Workload, context: Context) -> Verdicts:
    """What a scaler scales should not write its own replicas.

    Every `pulumi up`, `kubectl apply` or GitOps sync sets the written number again: at peak that stops loaded replicas,
    and the scaler starts them once more, a cold start later.
    """
    written = number(workload.spec.get("replicas")) if workload.scaled_by_replicas else None
    if written is None or any(path in _REPLICAS for path in workload.resource.origin.ignored):
        return
    scalers = [s for s in context.inventory.relation(Scaling).scalers_of(workload.resource) if not s.made_by]
    if scalers:
        consequence = f"every update sets it again, whatever {scalers[0].resource} has chosen"
        yield fail(("spec", "replicas"), written, consequence, related=(scalers[0].resource,))


# The ways to write it, or what holds it, among Pulumi's ignoreChanges.
_REPLICAS = frozenset(("spec.replicas", "spec", 'spec["replicas"]', "*"))


@rule(
    "AS420",
    "scaler-does-not-depend-on-the-variant-autoscaler",
    on=Scaler,
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Use a ScaledObject for each role, on the metrics of the endpoint picker and of vLLM.",
    versions="0.9.0 (2026-08-13) is the last release of llm-d's Workload Variant Autoscaler; its kind went with 0.9.",
    sources=(
        "https://github.com/llm-d/llm-d-autoscaling",
        "https://github.com/llm-d/llm-d/tree/main/guides/workload-autoscaling",
    ),
)
def scaler_does_not_depend_on_the_variant_autoscaler(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler should not depend on llm-d's Workload Variant Autoscaler.

    The project has ended. Release 0.9 removed the VariantAutoscaling kind, so an upgrade leaves such objects without a
    controller; a scaler on wva_desired_replicas then holds its last count for ever.
    """
    if scaler.kind == kinds.VARIANT_AUTOSCALING:
        yield fail(("kind",), scaler.resource.kind_name, "release 0.9 removed this kind, and no controller reads it")
    if scaler.kind == kinds.LLM_INFERENCE_SERVICE:
        for bounds in scaler.bounds:
            block = bounds.minimum_path[:-1]
            if isinstance(at(scaler.resource.data, *block, "wva"), dict):
                yield fail((*block, "wva"), "set", "the autoscaler behind it has had its last release")
    for signal, names in names_read(scaler):
        if "wva_desired_replicas" in names:
            yield fail(signal.path, signal.text, "the autoscaler that computes it has had its last release")


@rule(
    "AS428",
    "scaler-targets-the-owner-not-its-child",
    on=Scaler,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Scale through the owner: its own scaling block, or the kind it offers as a scale target.",
    sources=(
        "https://github.com/kserve/kserve/issues/5527",
        "https://github.com/defilantech/LLMKube/issues/1881",
        "https://github.com/ai-dynamo/dynamo/issues/4420",
    ),
)
def scaler_targets_the_owner_not_its_child(scaler: Scaler, context: Context) -> Verdicts:
    """A scaler must not scale an object that an operator makes and sets back.

    KServe, Dynamo and DisaggregatedSet write the replicas of their children from their own spec. What a scaler sets
    there is undone at the next reconcile, or the child it names is replaced by one of another name. An InferenceService
    with autoscalerClass external or none leaves the count alone, and Grove's cliques are made to be scaled.
    """
    target = scaler.target
    if target is None or scaler.made_by:
        return
    what = f"{target.kind.partition('.')[0]} {target.name}"
    owner = context.inventory.relation(Children).owner(target.kind, target.namespace, target.name)
    if owner is not None and not _leaves_replicas(owner):
        consequence = f"{owner} makes it and sets its replicas back at every reconcile"
        yield fail(target.path, what, consequence, related=(owner,))
        return
    found = context.inventory.relation(Scaling).target(scaler)
    for reference in sequence(at(found.data, "metadata", "ownerReferences")) if found is not None else ():
        if at(reference, "controller") is True and text(at(reference, "kind")) in _RESETTING and owner is None:
            yield fail(target.path, what, f"its owner, {reference['kind']} {text(at(reference, 'name'))}, sets it back")


# Kinds that write the replicas of what they own.
_RESETTING = frozenset(
    (
        "LLMInferenceService",
        "DynamoGraphDeployment",
        "DynamoComponentDeployment",
        "DisaggregatedSet",
        "LeaderWorkerSet",
        "Deployment",
    )
)
_AUTOSCALER_CLASS = ("metadata", "annotations", "serving.kserve.io/autoscalerClass")


def _leaves_replicas(owner: Resource) -> bool:
    return owner.kind == kinds.INFERENCE_SERVICE and at(owner.data, *_AUTOSCALER_CLASS) in ("external", "none")
