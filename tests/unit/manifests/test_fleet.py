"""The whole stack's objects: their order, patches, additions and a freeze."""

import re
from typing import Any

import pytest

from triplane.manifests.fleet import FleetManifests, fleet_manifests
from triplane.manifests.identity import Identity, ManifestError, identify
from triplane.settings.stack import StackSettings


def stack(**overrides: Any) -> StackSettings:
    """Two pools, a queue tree with a parent, and a model with prefill and decode."""

    def role(queue: str, signal: dict[str, Any]) -> dict[str, Any]:
        return {"pool": "serving", "queue": queue, "gpus": 2, "replicas": {"min": 2, "max": 4}, "signal": signal}

    return StackSettings.model_validate(
        {
            "cluster": {
                "name": "prod",
                "context": "prod",
                "cloud": "eks",
                "region": "us-east-1",
                "kubernetes": "1.35",
            },
            "pools": {
                purpose: {
                    "purpose": purpose,
                    "accelerator": "H100-SXM5",
                    "gpusPerNode": 8,
                    "nodes": {"max": 4},
                    "ami": "al2023@v20261115",
                }
                for purpose in ("serving", "training")
            },
            "queues": {
                "team": {
                    "gpus": {"quota": 16},
                    "children": {"chat-prefill": {"gpus": {"quota": 8}}, "chat-decode": {"gpus": {"quota": 8}}},
                }
            },
            "models": {
                "chat": {
                    "model": "acme/chat-8b",
                    "engine": {"version": "0.12.0"},
                    "namespace": "serving",
                    "coldStart": "4m",
                    "roles": {
                        "prefill": role("chat-prefill", {"backlog": "1s", "tokensPerSecond": 9000}),
                        "decode": role("chat-decode", {"kvUsage": "70%"}),
                    },
                }
            },
            **overrides,
        }
    )


def declared(fleet: FleetManifests) -> list[tuple[str, str]]:
    return [(manifest["kind"], manifest["metadata"]["name"]) for manifest in fleet.objects]


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def test_each_layer_is_kept_apart() -> None:
    fleet = fleet_manifests(stack())
    assert list(fleet.pools) == ["serving", "training"]
    assert [manifest["kind"] for manifest in fleet.pools["serving"]] == ["EC2NodeClass", "NodePool"]
    assert list(fleet.roles) == [("chat", "prefill"), ("chat", "decode")]
    assert [manifest["kind"] for manifest in fleet.roles["chat", "decode"]] == ["PodDisruptionBudget", "ScaledObject"]
    assert fleet.patched == frozenset()


def test_apply_order() -> None:
    order = declared(fleet_manifests(stack()))
    queues = [name for kind, name in order if kind == "Queue"]
    assert queues == ["team", "chat-prefill", "chat-decode"]
    for before, after in [
        (("EC2NodeClass", "serving"), ("NodePool", "serving")),
        (("NodePool", "training"), ("Queue", "team")),
        (("Queue", "chat-decode"), ("PodDisruptionBudget", "chat-prefill")),
        (("PodDisruptionBudget", "chat-prefill"), ("ScaledObject", "chat-prefill")),
    ]:
        assert order.index(before) < order.index(after)


def test_same_stack_same_objects() -> None:
    assert fleet_manifests(stack()).objects == fleet_manifests(stack()).objects


def test_identities_are_unique_and_complete() -> None:
    identities = [identify(manifest) for manifest in fleet_manifests(stack()).objects]
    assert len(set(identities)) == len(identities)


class TestExtra:
    def test_namespaces_come_first_and_the_rest_last(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "serving"}}
        fleet = fleet_manifests(stack(), [config_map("a", namespace="serving"), namespace])
        order = declared(fleet)
        assert order[0] == ("Namespace", "serving")
        assert order[-1] == ("ConfigMap", "a")
        assert fleet.extra == [config_map("a", namespace="serving"), namespace]

    @pytest.mark.parametrize("api_version", ["karpenter.sh/v1", "karpenter.sh/v1beta1"])
    def test_a_generated_object_may_not_be_declared_again(self, api_version: str) -> None:
        pool = {"apiVersion": api_version, "kind": "NodePool", "metadata": {"name": "serving"}}
        with pytest.raises(
            ManifestError, match=r"NodePool serving .* is declared twice\. Change the generated one under pat"
        ):
            fleet_manifests(stack(), [pool])

    def test_another_group_is_another_object(self) -> None:
        pool = {"apiVersion": "other.io/v1", "kind": "NodePool", "metadata": {"name": "serving"}}
        assert fleet_manifests(stack(), [pool]).extra == [pool]

    def test_one_object_in_two_files(self) -> None:
        with pytest.raises(ManifestError, match=r"ConfigMap a .* is declared twice\. Declare it once"):
            fleet_manifests(stack(), [config_map("a"), config_map("a", namespace="default")])

    def test_one_name_in_two_namespaces(self) -> None:
        extra = [config_map("a", namespace="one"), config_map("a", namespace="two")]
        assert fleet_manifests(stack(), extra).extra == extra


class TestPatches:
    def test_patched_in_its_place(self) -> None:
        patch = {"target": {"kind": "NodePool", "name": "training"}, "merge": {"spec": {"weight": 10}}}
        plain, fleet = fleet_manifests(stack()), fleet_manifests(stack(patches=[patch]))
        assert fleet.pools["training"][1]["spec"]["weight"] == 10
        assert fleet.patched == {Identity("karpenter.sh/v1", "NodePool", None, "training")}
        assert declared(fleet) == declared(plain)
        assert fleet.pools["serving"] == plain.pools["serving"]
        assert (fleet.queues, fleet.roles) == (plain.queues, plain.roles)

    def test_a_role_by_namespace(self) -> None:
        target = {"kind": "ScaledObject", "name": "chat-decode", "namespace": "serving"}
        fleet = fleet_manifests(stack(patches=[{"target": target, "merge": {"spec": {"maxReplicaCount": 3}}}]))
        assert fleet.roles["chat", "decode"][-1]["spec"]["maxReplicaCount"] == 3

    def test_unknown_target(self) -> None:
        patch = {"target": {"kind": "NodePool", "name": "trainin"}, "merge": {}}
        with pytest.raises(ManifestError, match="Nearest: NodePool training"):
            fleet_manifests(stack(patches=[patch]))


def test_freeze_pins_the_named_roles_and_holds_the_others() -> None:
    freeze = {"since": "2026-12-01T03:10:00Z", "reason": "P99 TTFT 14 s", "replicas": {"chat/prefill": 3}}
    fleet = fleet_manifests(stack(freeze=freeze))
    annotations = {role: fleet.roles["chat", role][-1]["metadata"]["annotations"] for role in ("prefill", "decode")}
    assert annotations == {
        "prefill": {"autoscaling.keda.sh/paused": "true", "autoscaling.keda.sh/paused-replicas": "3"},
        "decode": {"autoscaling.keda.sh/paused": "true"},
    }
    assert fleet.pools["serving"] != fleet_manifests(stack()).pools["serving"]


class TestOneServerOfExternalMetrics:
    def stack(self, prefill: str, decode: str, install: bool) -> StackSettings:
        models = stack().model_dump(by_alias=True, exclude_none=True)["models"]
        models["chat"]["roles"]["prefill"]["autoscaler"] = prefill
        models["chat"]["roles"]["decode"]["autoscaler"] = decode
        return stack(models=models, platform={"keda": {"version": "2.20.2", "install": install}})

    @pytest.mark.parametrize(
        ("prefill", "decode", "install", "owner"),
        [
            ("hpa", "keda", False, "models.chat.roles.decode brings KEDA"),
            ("keda", "hpa", False, "models.chat.roles.prefill brings KEDA"),
            ("hpa", "hpa", True, "platform.keda.install brings KEDA"),
        ],
    )
    def test_two(self, prefill: str, decode: str, install: bool, owner: str) -> None:
        with pytest.raises(ManifestError, match=re.escape(owner)):
            fleet_manifests(self.stack(prefill, decode, install))

    @pytest.mark.parametrize(("prefill", "decode", "install"), [("keda", "keda", True), ("hpa", "hpa", False)])
    def test_one(self, prefill: str, decode: str, install: bool) -> None:
        assert fleet_manifests(self.stack(prefill, decode, install)).roles
