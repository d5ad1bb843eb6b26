"""What differs between two sets of objects, and which pools it rolls."""

from typing import Any

import pytest

from triplane.manifests.changes import ABSENT, FieldChange, changes, replaced_pools


def pool(name: str = "h100", version: str = "v1", **template: Any) -> dict[str, Any]:
    spec = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "shared"}, **template}
    return {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"limits": {"nodes": "4"}, "template": {"spec": spec}},
    }


def node_class(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "shared"},
        "spec": {"amiSelectorTerms": [{"alias": "al2023@v20261115"}], **spec},
    }


def config_map(name: str, namespace: str | None = None, **data: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_added_removed_and_changed_in_one_order() -> None:
    before = [config_map("c", v="1"), config_map("a", v="1"), config_map("same")]
    after = [config_map("same"), config_map("b", v="1"), config_map("c", v="2")]
    assert [(str(change.identity), change.kind) for change in changes(before, after)] == [
        ("ConfigMap a", "removed"),
        ("ConfigMap b", "added"),
        ("ConfigMap c", "changed"),
    ]
    assert changes(after, after) == []


def test_no_namespace_is_default_and_versions_are_views_of_one_object() -> None:
    assert [c.kind for c in changes([config_map("a")], [config_map("a", "default")])] == ["changed"]
    (change,) = changes([pool(version="v1beta1")], [pool()])
    assert change.fields == (FieldChange(("apiVersion",), "karpenter.sh/v1beta1", "karpenter.sh/v1"),)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"x": 1}, {"x": 2}, [(("x",), 1, 2)]),
        ({"x": 1}, {}, [(("x",), 1, ABSENT)]),
        ({}, {"x": None}, [(("x",), ABSENT, None)]),
        ({"x": True}, {"x": 1}, [(("x",), True, 1)]),
        ({"x": {"y": 1}}, {"x": {"y": 1}}, []),
        ({"x": {"y": 1}}, {"x": "text"}, [(("x",), {"y": 1}, "text")]),
        ({"x": ["a", "b"]}, {"x": ["b"]}, [(("x",), ["a", "b"], ["b"])]),
        ({"x": [{"k": 1}]}, {"x": [{"k": 2}, {"k": 3}]}, [(("x", 0, "k"), 1, 2), (("x", 1), ABSENT, {"k": 3})]),
    ],
)
def test_fields_are_followed_to_the_value(old: Any, new: Any, expected: list[Any]) -> None:
    found = changes([config_map("a", **old)], [config_map("a", **new)])
    fields = [(field.path[1:], field.old, field.new) for change in found for field in change.fields]
    assert fields == expected


@pytest.mark.parametrize(
    ("before", "after", "karpenter", "rolled"),
    [
        ([pool()], [pool()], ("1.14.1", "1.14.1"), {}),
        ([pool()], [pool()], ("1.14.1", "1.15.0"), {}),
        ([pool()], [pool()], ("1.11.0", "1.12.0"), {"h100": "Karpenter 1.12"}),
        ([pool()], [pool(expireAfter="24h")], None, {"h100": "spec.template.spec.expireAfter"}),
        ([], [pool()], ("1.11.0", "1.12.0"), {}),
        ([pool()], [], None, {}),
        (
            [pool(), pool("other"), node_class()],
            [pool(), pool("other"), node_class(userData="x")],
            None,
            {"h100": "EC2NodeClass shared: spec.userData", "other": "EC2NodeClass shared: spec.userData"},
        ),
    ],
    ids=["nothing", "harmless upgrade", "upgrade", "template", "new", "gone", "class of two pools"],
)
def test_pools_whose_nodes_would_all_go(before: Any, after: Any, karpenter: Any, rolled: dict[str, str]) -> None:
    found = replaced_pools(before, after, karpenter)
    assert found.keys() == rolled.keys()
    assert all(reason in found[name][0] for name, reason in rolled.items())


def test_a_changed_limit_rolls_nothing() -> None:
    bigger = pool()
    bigger["spec"]["limits"] = {"nodes": "8"}
    assert replaced_pools([pool()], [bigger]) == {}
