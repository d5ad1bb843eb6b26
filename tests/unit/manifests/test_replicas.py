"""The autoscaler of a role: KEDA's ScaledObject and the HorizontalPodAutoscaler."""

from typing import Any

import pytest
import yaml

from triplane.manifests.identity import ManifestError
from triplane.manifests.replicas import role_manifests
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings, RoleName
from triplane.settings.platform import PlatformSettings

SLO = {"ttftP99": "2s", "itlP99": "50ms"}
BACKLOG = {"backlog": "1.2s", "tokensPerSecond": 10000}


def declare(
    role_name: RoleName = "prefill",
    *,
    name: str = "chat",
    role: dict[str, Any] | None = None,
    keda: str = "2.20.2",
    kubernetes: str = "1.35",
    model: dict[str, Any] | None = None,
    **freeze: Any,
) -> list[dict[str, Any]]:
    settings = ModelSettings.model_validate(
        {
            "model": "acme/chat-70b",
            "engine": {"name": "vllm", "version": "0.12.0"},
            "namespace": "serving",
            "coldStart": "7m",
            "roles": {
                role_name: {
                    "pool": "p",
                    "queue": "q",
                    "gpus": 1,
                    "replicas": {"min": 2, "max": 8},
                    "signal": BACKLOG,
                    **(role or {}),
                }
            },
            **(model or {}),
        }
    )
    return role_manifests(
        name,
        settings,
        role_name,
        platform=PlatformSettings.model_validate(
            {"keda": {"version": keda}, "prometheus": "http://prom.monitoring:9090"}
        ),
        cluster=ClusterSettings.model_validate(
            {"name": "c", "context": "c", "cloud": "existing", "kubernetes": kubernetes}
        ),
        **freeze,
    )


LABELS = {"app.kubernetes.io/name": "chat-prefill", "llm-d.ai/model": "chat", "llm-d.ai/role": "prefill"}


def test_scaled_object_in_full() -> None:
    assert declare(model={"slo": SLO}) == [
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": "chat-prefill", "namespace": "serving", "labels": LABELS},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-prefill"},
                "minReplicaCount": 2,
                "maxReplicaCount": 8,
                "fallback": {"failureThreshold": 3, "replicas": 2, "behavior": "currentReplicasIfHigher"},
                "advanced": {
                    "horizontalPodAutoscalerConfig": {
                        "behavior": {
                            "scaleUp": {
                                "stabilizationWindowSeconds": 0,
                                "policies": [{"type": "Pods", "value": 2, "periodSeconds": 420}],
                                "tolerance": "50m",
                            },
                            "scaleDown": {
                                "stabilizationWindowSeconds": 630,
                                "policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}],
                                "tolerance": "200m",
                            },
                        }
                    }
                },
                "triggers": [
                    {
                        "type": "prometheus",
                        "name": "backlog",
                        "metricType": "AverageValue",
                        "metadata": {
                            "serverAddress": "http://prom.monitoring:9090",
                            "query": 'sum(llm_d_epp_inflight_tokens{namespace="serving",'
                            'producer_name="inflight-load-producer",'
                            'endpoint_name=~"chat-prefill-[a-z0-9]*-?[a-z0-9]{5}-rank-[0-9]+"}) / 10000',
                            "threshold": "1.2",
                            "ignoreNullValues": "false",
                        },
                    },
                    {
                        "type": "prometheus",
                        "name": "ttft-p99",
                        "metricType": "Value",
                        "metadata": {
                            "serverAddress": "http://prom.monitoring:9090",
                            "query": "clamp_max(histogram_quantile(0.99, sum by (le) (rate("
                            'llm_d_epp_request_ttft_seconds_bucket{namespace="serving",model_name="acme/chat-70b",'
                            'streaming="true"}[5m]))) > 2, 4) or 0 * sum(rate(llm_d_epp_request_ttft_seconds_count'
                            '{namespace="serving",model_name="acme/chat-70b"}[5m]))',
                            "threshold": "2",
                            "ignoreNullValues": "false",
                        },
                    },
                ],
            },
        }
    ]


def behavior(**model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (scaler,) = declare(model=model, kubernetes="1.34")
    found = scaler["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    return found["scaleUp"], found["scaleDown"]


@pytest.mark.parametrize(
    ("cold_start", "period", "window"),
    [
        ("15s", 15, 300),
        ("500ms", 1, 300),
        ("200s", 200, 300),
        ("201s", 201, 302),
        ("4m", 240, 360),
        ("30m", 1800, 2700),
        ("31m", 1800, 2790),
        ("40m", 1800, 3600),
        ("2h", 1800, 3600),
    ],
)
def test_windows_follow_the_cold_start_within_the_api_bounds(cold_start: str, period: int, window: int) -> None:
    up, down = behavior(coldStart=cold_start)
    assert up == {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 2, "periodSeconds": period}],
    }
    assert down == {
        "stabilizationWindowSeconds": window,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}],
    }


@pytest.mark.parametrize(("maximum", "pods"), [(2, 1), (4, 1), (7, 1), (8, 2), (40, 10)])
def test_at_most_a_quarter_of_the_maximum_for_each_cold_start(maximum: int, pods: int) -> None:
    (scaler,) = declare(role={"replicas": {"min": 2, "max": maximum}})
    up = scaler["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleUp"]
    assert [policy["value"] for policy in up["policies"]] == [pods]


@pytest.mark.parametrize(
    ("keda", "kubernetes", "fallback", "tolerance"),
    [
        ("2.16.1", "1.35", False, False),
        ("2.17.0", "1.35", False, False),
        ("2.18.0", "1.35", True, True),
        ("2.20.2", "1.34", True, False),
        ("2.20.2", "1.35", True, True),
    ],
)
def test_fields_follow_the_versions(keda: str, kubernetes: str, fallback: bool, tolerance: bool) -> None:
    (scaler,) = declare(keda=keda, kubernetes=kubernetes)
    assert ("fallback" in scaler["spec"]) is fallback
    assert ("tolerance" in str(scaler)) is tolerance


WAKES = {"signal": {"flowControlQueue": 1, "inferencePool": "pool"}, "replicas": {"min": 0, "max": 4}}


class TestZero:
    def test_wakes_on_what_is_there_without_replicas(self) -> None:
        spec = declare("aggregated", role=WAKES)[0]["spec"]
        assert (spec["pollingInterval"], spec["cooldownPeriod"]) == (15, 1260)
        assert spec["fallback"]["replicas"] == 1

    def test_cooldown_is_at_least_five_minutes(self) -> None:
        assert declare("aggregated", role=WAKES, model={"coldStart": "20s"})[0]["spec"]["cooldownPeriod"] == 300

    def test_a_floor_above_zero_polls_and_cools_nothing(self) -> None:
        spec = declare()[0]["spec"]
        assert not {"pollingInterval", "cooldownPeriod", "idleReplicaCount"} & set(spec)

    @pytest.mark.parametrize("signal", [BACKLOG, {"kvUsage": "70%"}, {"queueDepth": 4}, {"concurrency": 4}])
    def test_refused_where_nothing_would_wake_it(self, signal: dict[str, Any]) -> None:
        with pytest.raises(ManifestError, match=r"models\.chat\.roles\.aggregated\.replicas\.min: from 0 replicas"):
            declare("aggregated", role={"signal": signal, "replicas": {"min": 0, "max": 4}})

    def test_hpa_needs_kubernetes_1_37(self) -> None:
        with pytest.raises(ManifestError, match=r"since Kubernetes 1\.37; this cluster is 1\.36"):
            declare("aggregated", role=WAKES | {"autoscaler": "hpa"}, kubernetes="1.36")
        hpa, _ = declare("aggregated", role=WAKES | {"autoscaler": "hpa"}, kubernetes="1.37")
        assert hpa["spec"]["minReplicas"] == 0


class TestTargets:
    def target(self, **role: Any) -> dict[str, Any]:
        (scaler,) = declare(role=role)
        return scaler["spec"]["scaleTargetRef"]

    def test_several_hosts(self) -> None:
        assert self.target(hosts=2) == {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "name": "chat-prefill",
        }

    def test_somebody_elses(self) -> None:
        reference = {"apiVersion": "serving.acme.io/v1", "kind": "Server", "name": "front"}
        assert self.target(target=reference) == reference

    def test_dynamo_is_scaled_through_the_adapter_its_operator_makes(self) -> None:
        assert self.target(target={"deployment": "graph", "component": "PrefillWorker"}) == {
            "apiVersion": "nvidia.com/v1beta1",
            "kind": "DynamoGraphDeploymentScalingAdapter",
            "name": "graph-prefillworker",
        }


WVA = {"signal": {"wva": {"variantCost": 20.5}}}
WVA_ANNOTATIONS = {
    "llm-d.ai/managed": "true",
    "llm-d.ai/model-id": "acme/chat-70b",
    "llm-d.ai/variant-cost": "20.5",
}


class TestWva:
    def test_keda(self) -> None:
        (scaler,) = declare(role=WVA, model={"slo": SLO})
        assert scaler["metadata"]["annotations"] == WVA_ANNOTATIONS
        (trigger,) = scaler["spec"]["triggers"]
        assert f'variant_name="{scaler["metadata"]["name"]}"' in trigger["metadata"]["query"]
        assert (trigger["metricType"], trigger["metadata"]["threshold"]) == ("AverageValue", "1")

    def test_hpa_uses_the_adapter_rule_that_wva_ships(self) -> None:
        (hpa,) = declare(role=WVA | {"autoscaler": "hpa"}, model={"servedName": "chat"})
        assert hpa["metadata"]["annotations"] == WVA_ANNOTATIONS | {"llm-d.ai/model-id": "chat"}
        assert hpa["spec"]["metrics"] == [
            {
                "type": "External",
                "external": {
                    "metric": {
                        "name": "wva_desired_replicas",
                        "selector": {"matchLabels": {"variant_name": "chat-prefill", "exported_namespace": "serving"}},
                    },
                    "target": {"type": "AverageValue", "averageValue": "1"},
                },
            }
        ]


class TestHpa:
    def test_in_full(self) -> None:
        hpa, rules = declare(role={"autoscaler": "hpa"}, model={"slo": SLO}, kubernetes="1.34")
        (keda,) = declare(model={"slo": SLO}, kubernetes="1.34")
        assert hpa == {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "chat-prefill", "namespace": "serving", "labels": LABELS},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-prefill"},
                "minReplicas": 2,
                "maxReplicas": 8,
                "behavior": keda["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
                "metrics": [
                    {
                        "type": "External",
                        "external": {
                            "metric": {"name": "serving_chat-prefill_backlog"},
                            "target": {"type": "AverageValue", "averageValue": "1200m"},
                        },
                    },
                    {
                        "type": "External",
                        "external": {
                            "metric": {"name": "serving_chat-prefill_ttft-p99"},
                            "target": {"type": "Value", "value": "2"},
                        },
                    },
                ],
            },
        }
        assert rules["metadata"] == {
            "name": "chat-prefill-adapter-rules",
            "namespace": "serving",
            "labels": LABELS,
        }

    def test_every_metric_has_a_rule_with_keda_s_query(self) -> None:
        hpa, rules = declare(role={"autoscaler": "hpa"}, model={"slo": SLO})
        (keda,) = declare(model={"slo": SLO})
        by_name = {r["name"]["as"]: r for r in yaml.safe_load(rules["data"]["config.yaml"])["externalRules"]}
        assert list(by_name) == [m["external"]["metric"]["name"] for m in hpa["spec"]["metrics"]]
        queries = [rule["metricsQuery"] for rule in by_name.values()]
        assert queries == [trigger["metadata"]["query"] for trigger in keda["spec"]["triggers"]]
        for rule in by_name.values():
            assert rule["resources"] == {"namespaced": False}
            assert rule["seriesQuery"] in rule["metricsQuery"]

    @pytest.mark.parametrize(
        ("kv_usage", "quantity"),
        [("70%", "700m"), ("100%", "1"), ("62.5%", "625m"), ("70.05%", "701m"), ("0.01%", "1m")],
    )
    def test_targets_are_written_as_the_api_server_writes_them(self, kv_usage: str, quantity: str) -> None:
        hpa, _ = declare("decode", role={"autoscaler": "hpa", "signal": {"kvUsage": kv_usage}})
        assert hpa["spec"]["metrics"][0]["external"]["target"]["averageValue"] == quantity


class TestFreeze:
    PAUSED = "autoscaling.keda.sh/paused"
    REPLICAS = "autoscaling.keda.sh/paused-replicas"

    @pytest.mark.parametrize(
        ("freeze", "annotations"),
        [
            ({}, None),
            ({"frozen": True}, {PAUSED: "true"}),
            ({"frozen_replicas": 6}, {PAUSED: "true", REPLICAS: "6"}),
            ({"frozen": True, "frozen_replicas": 0}, {PAUSED: "true", REPLICAS: "0"}),
        ],
    )
    def test_keda_pauses(self, freeze: dict[str, Any], annotations: dict[str, str] | None) -> None:
        (scaler,) = declare(**freeze)
        assert scaler["metadata"].get("annotations") == annotations
        assert scaler["spec"] == declare()[0]["spec"]

    def test_hpa_is_pinned(self) -> None:
        hpa, _ = declare(role={"autoscaler": "hpa"}, frozen_replicas=6)
        assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (6, 6)

    def test_hpa_holds_what_runs(self) -> None:
        hpa, _ = declare(role={"autoscaler": "hpa"}, frozen=True)
        assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (2, 8)
        assert [d["selectPolicy"] for d in hpa["spec"]["behavior"].values()] == ["Disabled", "Disabled"]

    def test_hpa_cannot_hold_zero(self) -> None:
        with pytest.raises(ManifestError, match="an HPA cannot hold"):
            declare(role={"autoscaler": "hpa"}, frozen_replicas=0)

    def test_negative(self) -> None:
        with pytest.raises(ManifestError, match="-1 is no number of replicas for chat/prefill"):
            declare(frozen_replicas=-1)


class TestNames:
    def test_as_long_as_keda_takes(self) -> None:
        (scaler,) = declare(name="m" * 46)
        assert len("keda-hpa-" + scaler["metadata"]["name"]) == 63

    def test_longer_is_refused(self) -> None:
        with pytest.raises(ManifestError, match="64 characters, of at most 63"):
            declare(name="m" * 47)

    def test_an_hpa_of_its_own_may_be_longer(self) -> None:
        assert declare(name="m" * 47, role={"autoscaler": "hpa"})
