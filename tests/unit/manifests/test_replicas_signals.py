"""What each signal asks Prometheus, by role, engine and engine version."""

import re
from typing import Any

import promql_parser
import pytest
from promql_series import series_of

from triplane.manifests import workloads
from triplane.manifests.identity import ManifestError
from triplane.manifests.signals import Trigger, endpoint_pattern, number, role_triggers
from triplane.settings.models import ModelSettings, RoleName

BACKLOG = {"backlog": "1.2s", "tokensPerSecond": 10000}
KV = {"kvUsage": "70%"}


def model(roles: dict[str, Any], **overrides: Any) -> ModelSettings:
    """A model with one signal a role: `{"decode": {"kvUsage": "70%"}}`. The key `role` beside it overrides the role."""
    return ModelSettings.model_validate(
        {
            "model": "acme/chat-70b",
            "engine": {"name": "vllm", "version": "0.12.0"},
            "namespace": "serving",
            "coldStart": "7m",
            "roles": {
                name: {
                    "pool": "p",
                    "queue": "q",
                    "gpus": 1,
                    "replicas": {"min": 2, "max": 8},
                    "signal": {key: value for key, value in signal.items() if key != "role"},
                    **signal.get("role", {}),
                }
                for name, signal in roles.items()
            },
            **overrides,
        }
    )


def triggers_of(settings: ModelSettings, role: RoleName) -> tuple[Trigger, ...]:
    return role_triggers("chat", settings, role, workloads.scale_target("chat", settings, role))


PODS = '{namespace="serving",llm_d_ai_model="chat",llm_d_ai_role="%s"}'
VLLM_OLD, VLLM_NEW = {"name": "vllm", "version": "0.12.0"}, {"name": "vllm", "version": "0.30.0"}
SGLANG, TRTLLM = {"name": "sglang", "version": "0.5.9"}, {"name": "trtllm", "version": "1.2.0"}


@pytest.mark.parametrize(
    ("role", "engine", "signal", "query", "target"),
    [
        ("decode", VLLM_OLD, KV, f"sum(avg by (pod) (vllm:kv_cache_usage_perc{PODS % 'decode'}))", "0.7"),
        ("decode", VLLM_NEW, KV, f"sum(avg by (pod) (vllm:kv_cache_usage_perc{PODS % 'decode'}))", "0.7"),
        ("decode", SGLANG, KV, f"sum(avg by (pod) (sglang:token_usage{PODS % 'decode'}))", "0.7"),
        ("decode", TRTLLM, KV, f"sum(avg by (pod) (trtllm_kv_cache_utilization{PODS % 'decode'}))", "0.7"),
        ("decode", VLLM_OLD, {"queueDepth": 5}, f"sum(vllm:num_requests_waiting{PODS % 'decode'})", "5"),
        (
            "decode",
            VLLM_NEW,
            {"queueDepth": 5},
            'sum(vllm:num_requests_waiting_by_reason{namespace="serving",llm_d_ai_model="chat",llm_d_ai_role="decode",reason="capacity"})',
            "5",
        ),
        ("prefill", SGLANG, {"queueDepth": 4}, f"sum(sglang:num_queue_reqs{PODS % 'prefill'})", "4"),
        ("prefill", TRTLLM, {"queueDepth": 4}, f"sum(trtllm_num_requests_waiting{PODS % 'prefill'})", "4"),
        (
            "aggregated",
            VLLM_OLD,
            {"concurrency": 200},
            f"sum(vllm:num_requests_running{PODS % 'prefill-decode'})",
            "200",
        ),
        ("aggregated", SGLANG, {"concurrency": 40}, f"sum(sglang:num_running_reqs{PODS % 'prefill-decode'})", "40"),
        (
            "prefill",
            VLLM_OLD,
            BACKLOG,
            'sum(llm_d_epp_inflight_tokens{namespace="serving",producer_name="inflight-load-producer",'
            'endpoint_name=~"chat-prefill-[a-z0-9]*-?[a-z0-9]{5}-rank-[0-9]+"}) / 10000',
            "1.2",
        ),
        (
            "aggregated",
            VLLM_OLD,
            {"flowControlQueue": 1, "inferencePool": "chat-pool"},
            'sum(llm_d_epp_flow_control_queue_size{namespace="serving",inference_pool="chat-pool"})',
            "1",
        ),
        (
            "decode",
            VLLM_OLD,
            {"wva": {"variantCost": 20}},
            'max(wva_desired_replicas{namespace="serving",variant_name="chat-decode"})',
            "1",
        ),
    ],
)
def test_signal(role: RoleName, engine: dict[str, str], signal: dict[str, Any], query: str, target: str) -> None:
    (trigger,) = triggers_of(model({role: signal}, engine=engine), role)
    assert trigger.query == query
    assert trigger.target_type == "AverageValue"
    assert number(trigger.target) == target
    promql_parser.parse(trigger.query)
    promql_parser.parse(trigger.series)


def test_group_of_several_hosts_counts_once_whatever_ranks_report() -> None:
    (trigger,) = triggers_of(model({"decode": KV | {"role": {"hosts": 2}}}), "decode")
    assert trigger.query == (
        f"sum(avg by (group) (label_replace(vllm:kv_cache_usage_perc{PODS % 'decode'}, "
        '"group", "$1", "pod", "chat-decode-([0-9]+)(-[0-9]+)?")))'
    )
    promql_parser.parse(trigger.query)


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        ({"backlog": "1s"}, "models.chat.roles.prefill.signal: backlog needs tokensPerSecond"),
        ({"flowControlQueue": 1}, "models.chat.roles.prefill.signal: flowControlQueue needs inferencePool"),
        ({}, "models.chat.roles.prefill.signal: no signal is set"),
    ],
)
def test_incomplete_signal(signal: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(message)):
        triggers_of(model({"prefill": signal}), "prefill")


class TestEndpointPattern:
    """The EPP's series name the pod only. PromQL anchors a pattern at both ends, as fullmatch does."""

    def matches(self, target: dict[str, str], endpoint: str, role: dict[str, Any] | None = None) -> bool:
        settings = model({"prefill": BACKLOG | {"role": role or {}}})
        return re.fullmatch(endpoint_pattern(settings.roles["prefill"], target), endpoint) is not None

    @pytest.mark.parametrize(
        ("kind", "endpoint", "expected"),
        [
            ("Deployment", "chat-prefill-7d4b9c6f5d-x2x9k-rank-0", True),
            ("Deployment", "chat-prefill-7d4b9c6f5d-x2x9k-rank-11", True),
            ("Deployment", "chat-decode-7d4b9c6f5d-x2x9k-rank-0", False),
            ("Deployment", "chat-prefill-decode-7d4b9c6f5d-x2x9k-rank-0", False),  # model chat-prefill, role decode
            ("Deployment", "old-chat-prefill-7d4b9c6f5d-x2x9k-rank-0", False),
            ("Deployment", "chat-prefill-7d4b9c6f5d-x2x9k", False),
            ("LeaderWorkerSet", "chat-prefill-0-rank-0", True),
            ("LeaderWorkerSet", "chat-prefill-12-3-rank-1", True),
            ("LeaderWorkerSet", "chat-prefill-decode-0-rank-0", False),
            ("StatefulSet", "chat-prefill-3-rank-0", True),
            ("RoleBasedGroup", "chat-prefill-anything-rank-0", True),
            ("RoleBasedGroup", "chat-decode-anything-rank-0", False),
        ],
    )
    def test_by_kind(self, kind: str, endpoint: str, expected: bool) -> None:
        assert self.matches({"kind": kind, "name": "chat-prefill"}, endpoint) is expected

    @pytest.mark.parametrize("length", [46, 47, 48, 52, 57, 58, 63])
    def test_long_deployment_names_are_cut_as_the_api_server_cuts_them(self, length: int) -> None:
        name = "p" * length
        replica_set = f"{name}-7d4b9c6f5d"
        pod = f"{replica_set}-"[:58] + "x2x9k"
        assert self.matches({"kind": "Deployment", "name": name}, f"{pod}-rank-0")

    @pytest.mark.parametrize("pod", ["graph-prefillworker-abc-x2x9k", "graph-0-prefillworker-x2x9k"])
    def test_dynamo_component(self, pod: str) -> None:
        role = {"target": {"deployment": "graph", "component": "PrefillWorker"}}
        target = {"kind": "DynamoGraphDeploymentScalingAdapter", "name": "graph-prefillworker"}
        assert self.matches(target, f"{pod}-rank-0", role)
        assert not self.matches(target, f"{pod}-rank-0".replace("prefill", "decode"), role)


SLO = {"ttftP99": "2s", "itlP99": "50ms"}


class TestTtft:
    def test_epp_in_the_path(self) -> None:
        _, trigger = triggers_of(model({"prefill": BACKLOG, "decode": KV}, slo=SLO, servedName="chat"), "prefill")
        assert trigger.target_type == "Value"
        assert number(trigger.target) == "2"
        assert trigger.query == (
            "clamp_max(histogram_quantile(0.99, sum by (le) (rate(llm_d_epp_request_ttft_seconds_bucket"
            '{namespace="serving",model_name="chat",streaming="true"}[5m]))) > 2, 4) or 0 * sum(rate('
            'llm_d_epp_request_ttft_seconds_count{namespace="serving",model_name="chat"}[5m]))'
        )

    def test_apart_the_decode_engine_has_it(self) -> None:
        _, trigger = triggers_of(model({"prefill": {"queueDepth": 4}, "decode": KV}, slo=SLO), "prefill")
        names = {selector.name for selector in series_of(trigger.query)}
        assert names == {"vllm:time_to_first_token_seconds_bucket", "vllm:time_to_first_token_seconds_count"}
        assert trigger.query.count(PODS % "decode") == 2

    def test_aggregated_has_its_own(self) -> None:
        _, trigger = triggers_of(model({"aggregated": {"concurrency": 9}}, slo=SLO), "aggregated")
        assert trigger.query.count(PODS % "prefill-decode") == 2

    def test_served_name_defaults_to_the_model(self) -> None:
        _, trigger = triggers_of(model({"prefill": BACKLOG}, slo=SLO), "prefill")
        assert 'model_name="acme/chat-70b"' in trigger.query

    def test_quotes_in_a_served_name_stay_inside_the_string(self) -> None:
        _, trigger = triggers_of(model({"prefill": BACKLOG}, slo=SLO, servedName='a"} or x{b="\\'), "prefill")
        found = {(m.name, m.value) for s in series_of(trigger.query) for m in s.matchers.matchers}
        assert ("model_name", 'a"} or x{b="\\') in found

    @pytest.mark.parametrize(
        ("role", "signal", "slo"),
        [
            ("decode", KV, SLO),  # decode replicas shorten ITL, not TTFT
            ("prefill", BACKLOG, None),
            ("prefill", {"wva": {"variantCost": 1}}, SLO),  # WVA decides alone
        ],
    )
    def test_absent(self, role: RoleName, signal: dict[str, Any], slo: dict[str, str] | None) -> None:
        assert len(triggers_of(model({role: signal}, slo=slo), role)) == 1

    def test_inter_token_latency_is_no_signal(self) -> None:
        settings = model({"prefill": BACKLOG, "decode": KV}, slo=SLO)
        queries = " ".join(t.query for role in settings.roles for t in triggers_of(settings, role))
        assert "inter_token" not in queries
        assert "itl" not in queries


@pytest.mark.parametrize(
    ("value", "text"), [(10000.0, "10000"), (0.7, "0.7"), (1e-7, "0.0000001"), (1e16, "10000000000000000"), (20, "20")]
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert number(value) == text
