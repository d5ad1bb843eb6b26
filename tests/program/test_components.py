"""Each component as the engine would be asked for it: parent, provider, order, protection, names, outputs."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
from triplane.components import ExtraManifests, GpuNodePool, QueueTree, ServingRole, cluster_provider
from triplane.components.kubernetes import KubernetesObject

from triplane.program import ProgramError, Resource
from triplane.settings.cluster import ClusterSettings
from triplane.testing import StackRun, run_components

CLUSTER: dict[str, Any] = {"name": "prod", "context": "prod-admin", "cloud": "existing", "kubernetes": "1.35"}
POOL = {
    "purpose": "serving",
    "accelerator": "H100-SXM5",
    "gpusPerNode": 8,
    "nodes": {"max": 2},
    "ami": "al2023@v20261115",
}
PROVIDER = "urn:pulumi:test::project::pulumi:providers:kubernetes::prod"


def with_provider(**changes: Any) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(provider=cluster_provider(ClusterSettings.model_validate({**CLUSTER, **changes})))


def names(run: StackRun, resource: Resource) -> list[str]:
    """What a resource waits for, as Kind/name."""
    waited = [run.recording.by_urn[urn] for urn in resource.depends_on]
    return sorted(f"{one.type.rpartition(':')[2]}/{one.name}" for one in waited)


# --- the cluster ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "config", "expected"),
    [
        ({}, {}, {"context": "prod-admin", "enableServerSideApply": "true"}),
        ({"kubeconfig": "~/prod"}, {}, {"context": "prod-admin", "kubeconfig": str(Path("~/prod").expanduser())}),
        ({"adopt": True}, {}, {"context": "prod-admin", "upsertExistingObjects": "true"}),
        ({}, {"kubernetes:renderYamlToDirectory": "out"}, {"renderYamlToDirectory": "out"}),
    ],
    ids=["context", "kubeconfig", "adopt", "render"],
)
def test_the_provider_is_for_the_stacks_own_context(
    settings: dict[str, Any], config: dict[str, str], expected: dict[str, str]
) -> None:
    run = run_components(lambda: with_provider(**settings), config=config)
    (provider,) = run.resources()
    assert (provider.type, provider.name) == ("pulumi:providers:kubernetes", "prod")
    assert provider.inputs == {"enableServerSideApply": "true", **expected}
    assert provider.options["version"]


# --- nodes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protect", [True, False])
def test_a_pool_is_a_class_and_then_a_pool_both_protected(protect: bool) -> None:
    run = run_components(lambda: GpuNodePool.of("h100", POOL, cluster=CLUSTER, protect=protect, opts=with_provider()))
    pool, node_class = run.resource("NodePool"), run.resource("EC2NodeClass")
    component = run.resource("GpuNodePool")
    assert (component.name, component.custom, component.type) == ("h100", False, "triplane:nodes:GpuNodePool")
    assert {r.parent for r in (pool, node_class)} == {component.urn}
    assert {r.provider for r in (pool, node_class)} == {PROVIDER}
    assert {r.name for r in (pool, node_class)} == {"h100"}
    assert names(run, pool) == ["EC2NodeClass/h100"]
    assert {r.protect for r in (pool, node_class)} == {protect}
    assert not component.protect
    assert run.recording.component_outputs[component.urn] == {"nodePool": "h100"}


def test_a_pool_waits_for_what_it_is_told_to() -> None:
    def declare() -> None:
        options = with_provider()
        karpenter = KubernetesObject({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "first"}})
        GpuNodePool.of("h100", POOL, cluster=CLUSTER, depends_on=[karpenter], opts=options)

    run = run_components(declare)
    assert names(run, run.resource("EC2NodeClass")) == ["Namespace/first"]


@pytest.mark.parametrize(
    ("pool", "said"),
    [({**POOL, "gpusPerNode": 3}, "ManifestError|ValidationError|H100"), ({**POOL, "purpose": "x"}, "ValidationError")],
)
def test_settings_that_are_no_pool_are_refused(pool: dict[str, Any], said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        run_components(lambda: GpuNodePool.of("h100", pool, cluster=CLUSTER))


# --- queues ---------------------------------------------------------------------------------------------------------


def test_a_queue_waits_for_its_parent() -> None:
    tree = {"team": {"gpus": {"quota": 8}, "children": {"a": {"gpus": {"quota": 8}}}}, "b": {"gpus": {"quota": 0}}}
    run = run_components(
        lambda: QueueTree.of("queues", tree, pools={"h100": {**POOL, "topology": ["host"]}}, opts=with_provider())
    )
    tree_component = run.resource("QueueTree")
    queues = run.resources("Queue")
    assert {queue.name for queue in queues} == {"team", "a", "b"}
    assert {queue.parent for queue in queues} == {tree_component.urn}
    assert names(run, run.resource("Queue", "a")) == ["Queue/team"]
    assert names(run, run.resource("Queue", "b")) == []
    assert run.recording.component_outputs[tree_component.urn] == {"queues": ["a", "b", "team"]}
    assert [queue.name for queue in run.children(tree_component) if queue in queues] == ["b", "team", "a"]
    # Levels cannot be changed in place, so another set of them is another object.
    assert run.resource("Topology").options["replaceOnChanges"] == ["spec.levels"]


# --- replicas and the rest -------------------------------------------------------------------------------------------


def test_a_role_declares_in_order_after_its_pool() -> None:
    objects = [
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "chat", "namespace": "chat"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat", "namespace": "chat"}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat", "namespace": "chat"}},
    ]

    def declare() -> None:
        options = with_provider()
        pool = GpuNodePool.of("h100", POOL, cluster=CLUSTER, opts=options)
        ServingRole("chat-decode", objects, depends_on=[pool], opts=options)

    run = run_components(declare)
    role = run.resource("ServingRole")
    assert [child.type.rpartition(":")[2] for child in run.children(role)] == [o["kind"] for o in objects]
    assert "NodePool/h100" in names(run, run.resource("PodDisruptionBudget"))
    assert "PodDisruptionBudget/chat" in names(run, run.resource("Deployment"))
    assert "Deployment/chat" in names(run, run.resource("ScaledObject"))
    assert not any(child.protect for child in run.children(role))
    # A queue label on a live workload is not followed: the workload is made anew.
    assert run.resource("Deployment").options["replaceOnChanges"] == ['metadata.labels["kai.scheduler/queue"]']
    assert run.recording.component_outputs[role.urn] == {
        "objects": ["PodDisruptionBudget/chat", "Deployment/chat", "ScaledObject/chat"]
    }


def test_a_workload_waits_for_its_queue_and_no_other() -> None:
    tree = {"team": {"gpus": {"quota": 8}, "children": {"a": {"gpus": {"quota": 8}}, "b": {"gpus": {"quota": 0}}}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x", "namespace": "x"}}

    def declare() -> None:
        queues = QueueTree.of("queues", tree, pools={"h100": {**POOL, "topology": ["host"]}})
        ServingRole("x", [budget], depends_on=queues.needed_by("a"))

    run = run_components(declare)
    (topology,) = run.resources("Topology")
    assert names(run, run.resource("PodDisruptionBudget")) == ["Queue/a", f"Topology/{topology.name}"]


def test_extra_manifests_of_one_name_in_two_namespaces_are_two_resources() -> None:
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": space}, "data": {"k": "v"}}
        for space in ("one", "two")
    ]
    run = run_components(lambda: ExtraManifests("manifests", objects, opts=with_provider()))
    assert {r.name for r in run.resources("ConfigMap")} == {"one/a", "two/a"}
    assert {r.type for r in run.resources("ConfigMap")} == {"kubernetes:core/v1:ConfigMap"}
    assert sorted(run.objects("ConfigMap"), key=str) == objects


def test_an_unknown_component_is_said_plainly() -> None:
    import triplane.components

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = triplane.components.Nothing
    assert all(getattr(triplane.components, name) for name in triplane.components.__all__ if name != "KarpenterOnAws")


@pytest.mark.parametrize(
    ("component", "given"),
    [
        ("GpuNodePool", {"purpose": "serving"}),
        ("QueueTree", {"chat": {"gpus": {"quota": 1}}}),
        ("ServingRole", [{"kind": 5}]),
        ("ExtraManifests", ["text"]),
    ],
)
def test_what_is_no_list_of_manifests_is_told(component: str, given: Any) -> None:
    classes = {c.__name__: c for c in (GpuNodePool, QueueTree, ServingRole, ExtraManifests)}
    with pytest.raises(ProgramError, match=f"{component} takes a list of Kubernetes manifests"):
        run_components(lambda: classes[component]("a", given))


def test_names_are_checked_as_in_a_stack_file() -> None:
    pool = {"purpose": "batch", "accelerator": "L4", "gpusPerNode": 1, "nodes": {"max": 1}, "ami": "al2023@v20261115"}
    cluster = {"name": "a", "context": "a", "cloud": "existing", "kubernetes": "1.35"}
    with pytest.raises(ProgramError, match="a name is at most 63"):
        run_components(lambda: GpuNodePool.of("Bad Name", pool, cluster=cluster))
    with pytest.raises(ProgramError, match="a name is at most 63"):
        run_components(lambda: QueueTree.of("queues", {"Bad Name": {"gpus": {"quota": 1}}}))
