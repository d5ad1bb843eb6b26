"""Label selectors, disruption budgets and what they come to."""

from typing import Any

import pytest

from triplane.inventory import Inventory
from triplane.inventory.resource import Origin, Resource
from triplane.inventory.selectors import DisruptionBudget, PodSelector, SelectedPods, Selector, scaled
from triplane.inventory.workloads import Workload


def resource(api: str, kind: str, name: str, spec: Any, namespace: str = "") -> Resource:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return Resource({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}, Origin())


@pytest.mark.parametrize(
    ("labels", "expressions", "selected"),
    [
        ({}, None, True),
        ({"app": "chat"}, None, True),
        ({"app": "chat", "tier": "gpu"}, None, False),
        ({}, [{"key": "app", "operator": "In", "values": ["chat", "code"]}], True),
        ({}, [{"key": "app", "operator": "NotIn", "values": ["chat"]}], False),
        ({}, [{"key": "tier", "operator": "NotIn", "values": ["gpu"]}], True),
        ({}, [{"key": "tier", "operator": "Exists"}], False),
        ({}, [{"key": "tier", "operator": "DoesNotExist"}], True),
        ({"app": "chat"}, [{"key": "app", "operator": "DoesNotExist"}], False),
        ("chat", [7, {"key": 1}], True),
    ],
)
def test_a_selector_matches_labels(labels: Any, expressions: Any, selected: bool) -> None:
    assert Selector(labels, expressions).matches({"app": "chat"}) is selected


@pytest.mark.parametrize(
    ("written", "of", "up", "down"),
    [(2, 4, 2, 2), ("25%", 1, 1, 0), ("25%", 4, 1, 1), ("50%", 3, 2, 1), ("0%", 9, 0, 0), ("100%", 9, 9, 9)],
)
def test_percentages_round_as_asked(written: Any, of: int, up: int, down: int) -> None:
    assert (scaled(written, of, up=True), scaled(written, of, up=False)) == (up, down)


@pytest.mark.parametrize("written", [None, "", "many", "-5%", "5", True, []])
def test_anything_else_is_no_amount(written: Any) -> None:
    assert scaled(written, 4, up=True) is None


@pytest.mark.parametrize(
    ("spec", "pods", "spare"),
    [
        ({"maxUnavailable": 1}, 3, (1, "maxUnavailable")),
        ({"minAvailable": 2}, 2, (0, "minAvailable")),
        ({"minAvailable": "50%"}, 3, (1, "minAvailable")),
        ({"maxUnavailable": "0%"}, 3, (0, "maxUnavailable")),
        ({}, 3, None),
    ],
)
def test_what_a_budget_lets_go(spec: dict[str, Any], pods: int, spare: tuple[int, str] | None) -> None:
    assert DisruptionBudget(resource("policy/v1", "PodDisruptionBudget", "b", spec)).spare(pods) == spare


def test_a_pool_is_read_in_both_api_groups() -> None:
    new = PodSelector(
        resource(
            "inference.networking.k8s.io/v1",
            "InferencePool",
            "p",
            {"selector": {"matchLabels": {"app": "chat"}}, "targetPorts": [{"number": 8000}, {"number": 8001}]},
        )
    )
    old = PodSelector(
        resource(
            "inference.networking.x-k8s.io/v1alpha2",
            "InferencePool",
            "p",
            {"selector": {"app": "chat"}, "targetPortNumber": 8000},
        )
    )
    assert new.path == ("spec", "selector", "matchLabels")
    assert old.path == ("spec", "selector")
    assert new.selector.labels == old.selector.labels == {"app": "chat"}
    assert (new.ports, old.ports) == ({8000, 8001}, {8000})


def test_pods_are_found_by_label_in_their_namespace_only() -> None:
    def deployment(name: str, namespace: str = "") -> Resource:
        template = {"metadata": {"labels": {"app": name, "team": "a"}}, "spec": {"containers": []}}
        return resource("apps/v1", "Deployment", name, {"template": template}, namespace)

    here, there, also = deployment("chat"), deployment("chat", "other"), deployment("code", "default")
    budget = resource("policy/v1", "PodDisruptionBudget", "b", {"selector": {"matchLabels": {"team": "a"}}})
    pods = Inventory([here, there, also, budget]).relation(SelectedPods)
    assert [w.resource for w, _ in pods.of("", Selector({"team": "a"}))] == [here, also]
    assert [w.resource for w, _ in pods.of("other", Selector({"app": "chat"}))] == [there]
    assert list(pods.of("", Selector({"team": "b"}))) == []
    assert [b.resource for b in pods.budgets(also.view(Workload))] == [budget]
    assert pods.budgets(there.view(Workload)) == []
