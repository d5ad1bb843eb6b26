"""What holds for the autoscaler of any valid role."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from promql_series import series_of

from triplane import catalog
from triplane.manifests.replicas import role_manifests
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings
from triplane.settings.platform import PlatformSettings

CRDS = Path(__file__).parents[2] / "crds"


def closed(schema: Any) -> Any:
    """A CRD's schema that also refuses what the API server would drop silently: fields it does not list."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        result["additionalProperties"] = False
    return result


@pytest.fixture(scope="module")
def scaled_object_schema() -> jsonschema.Draft202012Validator:
    crd = yaml.load((CRDS / "keda.sh_scaledobjects.yaml").read_text(), yaml.CSafeLoader)
    (version,) = crd["spec"]["versions"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


durations = st.integers(1, 7200).map(lambda seconds: f"{seconds}s")
signals = st.one_of(
    st.fixed_dictionaries(
        {"backlog": st.integers(1, 9000).map(lambda ms: f"{ms}ms"), "tokensPerSecond": st.floats(1, 1e6)}
    ),
    st.fixed_dictionaries({"kvUsage": st.integers(1, 100).map(lambda percent: f"{percent}%")}),
    st.fixed_dictionaries({"queueDepth": st.integers(1, 300)}),
    st.fixed_dictionaries({"concurrency": st.integers(1, 3000)}),
    st.fixed_dictionaries({"flowControlQueue": st.integers(1, 50), "inferencePool": st.just("pool")}),
    st.fixed_dictionaries({"wva": st.fixed_dictionaries({"variantCost": st.floats(0.01, 1e5)})}),
)
targets = st.one_of(
    st.none(),
    st.just({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "engine"}),
    st.just({"deployment": "graph", "component": "Worker"}),
)
engines = st.sampled_from([("vllm", "0.12.0"), ("vllm", "0.30.0"), ("sglang", "0.5.9"), ("trtllm", "1.2.0")])


@st.composite
def roles(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `role_manifests` for a role that settings accept."""
    engine, version = draw(engines)
    names = draw(st.sampled_from([("aggregated",), ("prefill", "decode")]))
    minimum = draw(st.integers(1, 20))
    block = {
        name: {
            "pool": "p",
            "queue": "q",
            "gpus": draw(st.sampled_from([1, 2, 4, 8])),
            "hosts": draw(st.sampled_from([1, 2])),
            "replicas": {"min": minimum, "max": minimum + draw(st.integers(0, 100))},
            "signal": draw(signals),
            "autoscaler": draw(st.sampled_from(["keda", "hpa"])),
            "target": draw(targets),
        }
        for name in names
    }
    model = ModelSettings.model_validate(
        {
            "model": "acme/chat-70b",
            "engine": {"name": engine, "version": version},
            "namespace": "serving",
            "coldStart": draw(durations),
            "slo": draw(st.none() | st.fixed_dictionaries({"ttftP99": durations, "itlP99": durations})),
            "servedName": draw(st.none() | st.text(min_size=1, max_size=10)),
            "roles": block,
        }
    )
    cluster = {
        "name": "c",
        "context": "c",
        "cloud": "existing",
        "kubernetes": draw(st.sampled_from(["1.33", "1.35", "1.37"])),
    }
    keda = draw(st.sampled_from(["2.16.1", "2.17.0", "2.20.2"]))
    return {
        "model_name": "chat",
        "model": model,
        "role_name": draw(st.sampled_from(names)),
        "platform": PlatformSettings.model_validate({"keda": {"version": keda}}),
        "cluster": ClusterSettings.model_validate(cluster),
        "frozen_replicas": draw(st.none() | st.integers(1, 20)),
    }


def declare(arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The scaler, and the queries it goes by."""
    scaler, *rules = role_manifests(**arguments)
    if scaler["kind"] == "ScaledObject":
        return scaler, [trigger["metadata"]["query"] for trigger in scaler["spec"]["triggers"]]
    rows = [r for config in rules for r in yaml.safe_load(config["data"]["config.yaml"])["externalRules"]]
    return scaler, [row["metricsQuery"] for row in rows]


def has_none(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_none(item) for item in value.values())
    return value is None or (isinstance(value, list) and any(has_none(item) for item in value))


@given(roles())
def test_no_role_scales_on_a_duty_cycle_or_on_memory(arguments: dict[str, Any]) -> None:
    scaler, queries = declare(arguments)
    names = {series.name for query in queries for series in series_of(query)}
    names |= {m["external"]["metric"]["name"] for m in scaler["spec"].get("metrics", [])} & {"wva_desired_replicas"}
    assert names
    for name in names:
        fact = catalog.metric_class(name)
        assert fact is not None, name
        assert fact.exact, f"{name} is judged by its shape only"
        assert fact.kind in ("demand", "latency"), name


@given(roles())
def test_every_query_is_promql_of_one_namespace(arguments: dict[str, Any]) -> None:
    _, queries = declare(arguments)
    for query in queries:
        assert "vector(" not in query
        for series in series_of(query):
            labels = {matcher.name: matcher.value for matcher in series.matchers.matchers}
            assert labels["namespace"] == "serving"
            assert set(labels) & {"llm_d_ai_role", "endpoint_name", "inference_pool", "variant_name", "model_name"}


@given(roles())
def test_bounds_are_explicit_and_the_type_fits_the_shape(arguments: dict[str, Any]) -> None:
    scaler, _ = declare(arguments)
    spec = scaler["spec"]
    replicas = arguments["model"].roles[arguments["role_name"]].replicas
    if scaler["kind"] == "ScaledObject":
        assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (replicas.min, replicas.max)
        types = {trigger["name"]: trigger["metricType"] for trigger in spec["triggers"]}
        assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in spec["triggers"])
        assert all(float(trigger["metadata"]["threshold"]) > 0 for trigger in spec["triggers"])
        behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    else:
        held = arguments["frozen_replicas"]
        expected = (replicas.min, replicas.max) if held is None else (held, held)
        assert (spec["minReplicas"], spec["maxReplicas"]) == expected
        types = {
            m["external"]["metric"]["name"].rpartition("_")[2]: m["external"]["target"]["type"] for m in spec["metrics"]
        }
        behavior = spec["behavior"]
    assert [name for name in types if name != "ttft-p99"], "TTFT is never the only trigger"
    assert all(kind == ("Value" if name == "ttft-p99" else "AverageValue") for name, kind in types.items())
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 300
    for direction in behavior.values():
        assert 0 <= direction["stabilizationWindowSeconds"] <= 3600
        assert all(1 <= p["periodSeconds"] <= 1800 and p["value"] >= 1 for p in direction["policies"])


@given(roles())
def test_manifests_are_whole_and_repeatable(arguments: dict[str, Any]) -> None:
    manifests = role_manifests(**arguments)
    assert manifests == role_manifests(**arguments)
    assert not has_none(manifests)
    assert yaml.safe_load(yaml.safe_dump(manifests)) == manifests
    assert all(m["metadata"]["namespace"] == "serving" and m["metadata"]["name"] for m in manifests)
    assert len({(m["kind"], m["metadata"]["name"]) for m in manifests}) == len(manifests)


@given(arguments=roles())
def test_scaled_object_fits_kedas_schema(
    scaled_object_schema: jsonschema.Draft202012Validator, arguments: dict[str, Any]
) -> None:
    scaler, _ = declare(arguments)
    if scaler["kind"] == "ScaledObject":
        scaled_object_schema.validate(scaler)


def test_the_schema_check_can_fail(scaled_object_schema: jsonschema.Draft202012Validator) -> None:
    wrong = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": {"minReplicas": 1}}
    messages = {error.message for error in scaled_object_schema.iter_errors(wrong)}
    assert any("minReplicas" in message for message in messages)
    assert any("scaleTargetRef" in message for message in messages)
