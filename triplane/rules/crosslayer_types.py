"""Judgements on fields that the kinds of several layers have in common."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from triplane.documents import Path
from triplane.inventory import Resource, kinds
from triplane.inventory.fields import at, mapping, sequence
from triplane.inventory.gangs import PodCliqueSet
from triplane.inventory.nodepools import REQUIREMENTS
from triplane.inventory.workloads import Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

# WL507 judges the value of this one.
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_BARE: Mapping[type, str] = {bool: "boolean", int: "number", float: "number"}
_TAINT_FIELDS = ("key", "value", "effect", "operator")

Found = Iterator[tuple[Path, Any]]


@rule(
    "XL613",
    "text-fields-hold-text",
    on=Resource,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Put the value in quotes.",
    sources=(
        "https://github.com/aws/karpenter-provider-aws/issues/1735",
        "https://github.com/kubernetes/kubernetes/issues/14948",
    ),
)
def text_fields_hold_text(resource: Resource, context: Context) -> Verdicts:
    """A field that takes text must not hold a bare boolean or number.

    YAML 1.1 reads true, yes and on as booleans and 1.20 as 1.2. The API server refuses the whole object, so that the
    taint, label or setting of the next release never arrives. Read are labels and annotations, the label selectors and
    environment of pods, tolerations and taints, and the values of node requirements. (KEDA's trigger metadata is
    AS425's, the annotation do-not-disrupt WL507's.) There is no autofix: `yes` may have meant "yes" as well as "true",
    and what a number looked like is lost.
    """
    for path, value in _texts(resource):
        bare = _BARE.get(value.__class__)
        if bare is not None:
            # The value of an environment variable may be a secret.
            found = f"a bare {bare}" if "env" in path else value
            yield fail(
                path, found, f"the field takes text, and the API server refuses an object with a bare {bare} there"
            )


def _texts(resource: Resource) -> Found:
    """Every value of the object that should be text, with its path."""
    yield from _metadata(resource.data.get("metadata"), ("metadata",))
    if resource.kind == kinds.NODE_POOL:
        template: Path = ("spec", "template")
        yield from _metadata(at(resource.data, *template, "metadata"), (*template, "metadata"))
        for listing in ("taints", "startupTaints"):
            yield from _fields(
                at(resource.data, *template, "spec", listing), (*template, "spec", listing), _TAINT_FIELDS
            )
        for index, requirement in enumerate(sequence(at(resource.data, *REQUIREMENTS))):
            for place, value in enumerate(sequence(at(requirement, "values"))):
                yield (*REQUIREMENTS, index, "values", place), value
    elif resource.kind == kinds.SERVICE:
        yield from _map(at(resource.data, "spec", "selector"), ("spec", "selector"))
    elif resource.kind in Workload.KINDS:
        for pods in resource.view(Workload).templates:
            if pods.metadata_path != ("metadata",):
                yield from _metadata(pods.metadata, pods.metadata_path)
            yield from _map(pods.spec.get("nodeSelector"), (*pods.path, "nodeSelector"))
            yield from _fields(pods.spec.get("tolerations"), (*pods.path, "tolerations"), _TAINT_FIELDS)
            for container in pods.containers:
                yield from _fields(container.data.get("env"), (*container.path, "env"), ("name", "value"))


def _metadata(metadata: Any, path: Path) -> Found:
    fields = mapping(metadata)
    yield from _map(fields.get("labels"), (*path, "labels"))
    for place, value in _map(fields.get("annotations"), (*path, "annotations")):
        if place[-1] != DO_NOT_DISRUPT:
            yield place, value


def _map(written: Any, path: Path) -> Found:
    for key, value in mapping(written).items():
        yield (*path, key), value


def _fields(written: Any, path: Path, names: Iterable[str]) -> Found:
    for index, entry in enumerate(sequence(written)):
        fields = mapping(entry)
        for name in names:
            if name in fields:
                yield (*path, index, name), fields[name]


@rule(
    "XL614",
    "grove-group-has-the-replicas-it-needs",
    on=PodCliqueSet,
    severity=Severity.ERROR,
    profile=Profile.RECOMMENDED,
    fix="Set replicas, and minReplicas of the autoscaler, to minAvailable at least.",
    sources=("https://github.com/ai-dynamo/grove/issues/255", "https://github.com/ai-dynamo/grove/pull/114"),
)
def grove_group_has_the_replicas_it_needs(cliques: PodCliqueSet, context: Context) -> Verdicts:
    """A clique or scaling group of a PodCliqueSet must have as many replicas as it says must be available.

    With fewer its gang is never complete: the pods that exist hold GPUs and wait, and once running Grove ends the whole
    gang after the termination delay. Grove's webhook checks cliques, but let scaling groups pass (grove#255); and an
    autoscaler inside may go below with its own minReplicas.
    """
    for group in cliques.groups:
        if group.replicas < group.min_available:
            consequence = (
                f"{group.name or 'it'} needs {group.min_available} to be available, so its gang never completes"
            )
            yield fail((*group.path, "replicas"), group.replicas, consequence)
        elif group.least is not None and group.least < group.min_available:
            consequence = f"its autoscaler may go below the {group.min_available} that must be available"
            yield fail(group.least_path, group.least, consequence)
