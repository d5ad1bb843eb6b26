"""The pods of a role: placed by KAI, drained in time, scaled by nobody but the autoscaler."""

import ast
from collections.abc import Callable
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from triplane import catalog
from triplane.manifests.contract import OPT_IN, PodContract
from triplane.manifests.identity import ManifestError
from triplane.manifests.nodes import pool_manifests
from triplane.manifests.workloads import pod_contract, scale_target, workload_manifests
from triplane.settings.cluster import ClusterSettings
from triplane.settings.models import ModelSettings, RoleName
from triplane.settings.platform import KaiSettings, KarpenterSettings, PlatformSettings
from triplane.settings.pools import PoolSettings

CrdErrors = Callable[[dict[str, Any]], list[str]]
Manifest = dict[str, Any]

WORKLOAD: dict[str, Any] = {"image": "vllm/vllm-openai:v0.12.0"}


def model(
    role: RoleName = "decode", *, engine: str = "vllm", version: str = "0.12.0", **overrides: Any
) -> ModelSettings:
    """A 70B model with one role; keys of a role go to the role, others to the model."""
    role_keys = {"pool", "queue", "gpus", "hosts", "replicas", "surge", "preemptible", "signal", "target", "workload"}
    values: dict[str, Any] = {
        "model": "nvidia/Llama-3.3-70B-Instruct-FP8",
        "engine": {"name": engine, "version": version},
        "namespace": "chat",
        "coldStart": "7m",
        **{key: value for key, value in overrides.items() if key not in role_keys},
        "roles": {
            role: {
                "pool": "serving",
                "queue": "chat",
                "gpus": 4,
                "replicas": {"min": 2, "max": 6},
                "signal": {"kvUsage": "70%"},
                **{key: value for key, value in overrides.items() if key in role_keys},
            }
        },
    }
    return ModelSettings.model_validate(values)


def pool(**overrides: Any) -> PoolSettings:
    values = {"purpose": "serving", "accelerator": "H100-SXM5", "gpusPerNode": 8, "nodes": {"max": 6}, **overrides}
    return PoolSettings.model_validate(values)


def surroundings(
    kai: str = "0.16.8", karpenter: str = "1.14.1", dialect: str = "aws", **pool_overrides: Any
) -> dict[str, Any]:
    return {
        "pool_name": "serving",
        "pool": pool(**pool_overrides),
        "platform": PlatformSettings(kai=KaiSettings(version=kai), karpenter=KarpenterSettings(version=karpenter)),
        "cluster": ClusterSettings.model_validate(
            {"name": "c", "context": "c", "cloud": "existing", "kubernetes": "1.35", "dialect": dialect}
        ),
    }


def contract(settings: ModelSettings, **around: Any) -> PodContract:
    (role,) = settings.roles
    return pod_contract("chat", settings, role, **surroundings(**around))


def workload(settings: ModelSettings, **around: Any) -> Manifest:
    (role,) = settings.roles
    return workload_manifests("chat", settings, role, **surroundings(**around))[1]


def template(manifest: Manifest, which: str = "leaderTemplate") -> Manifest:
    spec: Manifest = manifest["spec"]
    found: Manifest = spec["leaderWorkerTemplate"][which] if manifest["kind"] == "LeaderWorkerSet" else spec["template"]
    return found


def container(manifest: Manifest, which: str = "leaderTemplate") -> Manifest:
    (only,) = template(manifest, which)["spec"]["containers"]
    found: Manifest = only
    return found


# What is scaled ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "target"),
    [
        ({}, ("apps/v1", "Deployment", "chat-decode")),
        ({"hosts": 2}, ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "chat-decode")),
        ({"workload": WORKLOAD, "hosts": 2}, ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "chat-decode")),
        (
            {"target": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "mine"}},
            ("apps/v1", "StatefulSet", "mine"),
        ),
        (
            {"target": {"deployment": "chat", "component": "VllmDecodeWorker"}},
            ("nvidia.com/v1beta1", "DynamoGraphDeploymentScalingAdapter", "chat-vllmdecodeworker"),
        ),
    ],
)
def test_the_scale_target_follows_from_the_role(role: dict[str, Any], target: tuple[str, str, str]) -> None:
    found = scale_target("chat", model(**role), "decode")
    assert (found["apiVersion"], found["kind"], found["name"]) == target


@pytest.mark.parametrize("hosts", [1, 2])
def test_what_is_declared_is_what_is_scaled_and_carries_no_replicas(hosts: int) -> None:
    settings = model(hosts=hosts, workload=WORKLOAD)
    manifest = workload(settings)
    target = scale_target("chat", settings, "decode")
    assert (manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]) == tuple(target.values())
    assert "replicas" not in manifest["spec"]


# The disruption budget --------------------------------------------------------------------------------------------


def test_each_role_has_a_budget_of_one_pod_that_blocks_no_drain_for_ever() -> None:
    (budget,) = workload_manifests("chat", model(), "decode", **surroundings())
    assert budget == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "chat-decode",
            "namespace": "chat",
            "labels": {"app.kubernetes.io/name": "chat-decode", "llm-d.ai/model": "chat", "llm-d.ai/role": "decode"},
        },
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": {"app.kubernetes.io/name": "chat-decode", "llm-d.ai/role": "decode"}},
        },
    }


def test_no_selector_takes_in_another_roles_pods() -> None:
    contracts = [contract(model(role, engine="sglang", version="0.5.5")) for role in get_args(RoleName)]
    for one in contracts:
        matched = [other.name for other in contracts if one.selector.items() <= dict(other.labels).items()]
        assert matched == [one.name]


def test_an_aggregated_pod_has_the_label_that_the_router_takes_for_both_phases() -> None:
    assert contract(model("aggregated")).labels["llm-d.ai/role"] == "prefill-decode"


# Placement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [1, 2])
def test_owner_and_every_template_opt_in_to_kai(hosts: int) -> None:
    manifest = workload(model(hosts=hosts, workload=WORKLOAD), shard="h100")
    templates = [template(manifest)] + ([template(manifest, "workerTemplate")] if hosts > 1 else [])
    for metadata in [manifest["metadata"], *(t["metadata"] for t in templates)]:
        labels = metadata["labels"]
        assert labels["kai.scheduler/queue"] == "chat"
        assert labels["kai.scheduler/preemptibility"] == "non-preemptible"
        assert labels["kai.scheduler/node-pool"] == "h100"
        assert "kai.scheduler/queue" not in metadata.get("annotations", {})
    for spec in (t["spec"] for t in templates):
        assert spec["schedulerName"] == "kai-scheduler"
        assert spec["priorityClassName"] == "inference"
        assert spec["nodeSelector"] == {"triplane.dev/pool": "serving", "kai.scheduler/node-pool": "h100"}


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"shard": "h100", "taints": [{"key": "team", "value": "chat"}, {"key": "nvidia.com/gpu", "value": "present"}]},
        {"efa": True, "zones": ["us-east-1b"], "startupTaints": [{"key": "agent", "effect": "NoExecute"}]},
    ],
)
def test_the_pods_fit_the_nodes_of_their_pool(overrides: dict[str, Any]) -> None:
    around = surroundings(ami="al2023@v20261115", **overrides)
    pods = pod_contract("chat", model(), "decode", **around)
    manifests = pool_manifests("serving", around["pool"], around["cluster"], around["platform"])
    (nodes,) = (m["spec"]["template"] for m in manifests if m["kind"] == "NodePool")
    assert pods.node_selector.items() <= nodes["metadata"]["labels"].items()
    taints = {(t["key"], t["effect"]): t.get("value") for t in nodes["spec"]["taints"]}
    assert {(t["key"], t["effect"]) for t in pods.tolerations} == set(taints)
    for toleration in pods.tolerations:
        if toleration["operator"] == "Equal":
            assert toleration["value"] == taints[toleration["key"], toleration["effect"]]


def test_a_preemptible_role_says_so_by_label() -> None:
    assert contract(model(preemptible=True)).labels["kai.scheduler/preemptibility"] == "preemptible"


def test_tolerations_are_the_pools_taints_and_no_more() -> None:
    taints = [{"key": "team", "value": "chat"}, {"key": "burst", "effect": "NoExecute"}]
    tolerations = contract(model(), taints=taints, startupTaints=[{"key": "agent"}]).tolerations
    assert tolerations == (
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "chat", "effect": "NoSchedule"},
        {"key": "burst", "operator": "Exists", "effect": "NoExecute"},
    )


@pytest.mark.parametrize(
    ("topology", "hosts", "expected"),
    [
        (["zone", "host"], 2, {"": "zone-host", "-required-placement": "topology.kubernetes.io/zone"}),
        (["zone", "host"], 1, {}),  # a Deployment is one PodGroup a pod: nothing to place together
        (["host"], 2, {}),
        ([], 2, {}),
    ],
)
def test_only_gangs_ask_for_a_topology_on_their_owner(
    topology: list[str], hosts: int, expected: dict[str, str]
) -> None:
    manifest = workload(model(hosts=hosts, workload=WORKLOAD), topology=topology)
    key = "kai.scheduler/topology"
    found = {k: v for k, v in manifest["metadata"].get("annotations", {}).items() if k.startswith(key)}
    assert found == {key + suffix: value for suffix, value in expected.items()}
    assert not any(k.startswith(key) for k in template(manifest)["metadata"].get("annotations", {}))


def test_the_narrowest_level_above_the_host_is_preferred() -> None:
    annotations = contract(model(hosts=2), topology=["zone", "example.com/rack", "host"]).owner_annotations
    assert annotations["kai.scheduler/topology-preferred-placement"] == "example.com/rack"


@pytest.mark.parametrize(
    ("kai", "role", "expected"),
    [
        ("0.16.8", {"hosts": 2, "preemptible": True}, {}),
        ("0.17.0", {"hosts": 2}, {"kai.scheduler/staleness-grace-period": "7m"}),
        ("0.17.0", {"preemptible": True}, {"kai.scheduler/preemption-delay": "7m"}),
        ("0.17.0", {}, {}),
    ],
)
def test_waiting_for_nodes_is_asked_for_from_kai_0_17_on(
    kai: str, role: dict[str, Any], expected: dict[str, str]
) -> None:
    assert contract(model(**role), kai=kai).owner_annotations == expected


@pytest.mark.parametrize(
    ("role", "around", "expected"),
    [
        ({}, {}, "7m"),
        ({}, {"karpenter": "1.12.0"}, "7m"),
        ({}, {"karpenter": "1.11.2"}, None),  # reads no durations
        ({}, {"dialect": "eks-auto"}, None),
        ({"hosts": 2}, {}, "true"),
        ({"hosts": 2}, {"karpenter": "1.9.0"}, "true"),
        ({}, {"purpose": "training"}, "true"),
    ],
)
def test_do_not_disrupt_covers_loading_and_gangs_only(
    role: dict[str, Any], around: dict[str, Any], expected: str | None
) -> None:
    assert contract(model(**role), **around).annotations.get("karpenter.sh/do-not-disrupt") == expected


# Devices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "settings", "efa", "share"),
    [
        ("decode", {"gpus": 4}, True, 0.5),
        ("prefill", {"gpus": 2}, True, 0.25),
        ("aggregated", {"gpus": 8, "hosts": 2}, True, 1),
        ("aggregated", {"gpus": 8}, True, None),
        ("decode", {"gpus": 4}, False, None),
    ],
)
def test_pods_that_talk_across_nodes_get_their_share_of_the_efa_interfaces(
    role: RoleName, settings: dict[str, Any], efa: bool, share: float | None
) -> None:
    devices = contract(model(role, **settings), efa=efa, zones=["us-east-1b"]).devices
    node = min(t.efa for t in catalog.instance_types("H100-SXM5", 8))
    assert devices.get("vpc.amazonaws.com/efa") == (None if share is None else str(int(node * share)))
    assert devices["nvidia.com/gpu"] == str(settings["gpus"])


def test_a_pod_that_the_nodes_efa_interfaces_cannot_serve_is_refused() -> None:
    one_interface = {"accelerator": "L4", "gpusPerNode": 4, "efa": True, "zones": ["us-east-1b"]}
    with pytest.raises(ManifestError, match="take the whole node"):
        contract(model("prefill", gpus=2), **one_interface)
    assert contract(model("prefill", gpus=4), **one_interface).devices["vpc.amazonaws.com/efa"] == "1"


def test_requests_and_limits_of_devices_are_equal_and_cpu_is_unlimited() -> None:
    resources = container(workload(model(workload={**WORKLOAD, "cpu": "12", "memory": "100Gi"})))["resources"]
    assert resources == {
        "requests": {"cpu": "12", "memory": "100Gi", "nvidia.com/gpu": "4"},
        "limits": {"memory": "100Gi", "nvidia.com/gpu": "4"},
    }


def test_nccl_gets_shared_memory_with_a_bound() -> None:
    manifest = workload(model(workload={**WORKLOAD, "sharedMemory": "32Gi"}))
    assert template(manifest)["spec"]["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Gi"}}
    ]
    assert container(manifest)["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]


def test_no_capability_is_kept_but_pinning_memory_for_efa() -> None:
    drop = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container(workload(model(workload=WORKLOAD)))["securityContext"] == drop
    with_efa = container(workload(model(workload=WORKLOAD), efa=True, zones=["us-east-1b"]))["securityContext"]
    assert with_efa["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}


# Start and stop ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cold_start", "failures"), [("7m", 84), ("25s", 5), ("1h", 720)])
def test_the_startup_probe_allows_twice_the_cold_start(cold_start: str, failures: int) -> None:
    found = container(workload(model(coldStart=cold_start, workload=WORKLOAD)))
    assert (found["startupProbe"]["periodSeconds"], found["startupProbe"]["failureThreshold"]) == (10, failures)
    assert {"readinessProbe", "livenessProbe"} <= set(found)


def test_a_rollout_may_take_as_long_as_a_start() -> None:
    assert workload(model(coldStart="15m", workload=WORKLOAD))["spec"]["progressDeadlineSeconds"] == 2 * 15 * 60 + 600


@pytest.mark.parametrize(
    ("settings", "disruption", "seconds"),
    [
        ({}, {}, 600),
        ({}, {"terminationGracePeriod": "5m"}, 300),
        ({}, {"terminationGracePeriod": "1h"}, 600),
        ({"terminationGrace": "20m"}, {}, 1200),
        ({"terminationGrace": "4m"}, {"terminationGracePeriod": "5m"}, 240),
    ],
)
def test_the_grace_period_stays_within_the_pools(
    settings: dict[str, Any], disruption: dict[str, Any], seconds: int
) -> None:
    manifest = workload(model(workload={**WORKLOAD, **settings}), disruption=disruption)
    assert template(manifest)["spec"]["terminationGracePeriodSeconds"] == seconds


def test_a_longer_grace_than_the_pools_is_refused() -> None:
    with pytest.raises(ManifestError, match="10m is longer than the pool's terminationGracePeriod, 300 s"):
        contract(model(workload={**WORKLOAD, "terminationGrace": "10m"}), disruption={"terminationGracePeriod": "5m"})


@pytest.mark.parametrize(
    "engine", [("vllm", "0.12.0", "vllm:num_requests_running"), ("sglang", "0.5.5", "sglang:num_running_reqs")]
)
def test_a_stopping_pod_waits_for_its_requests_by_the_engines_own_gauges(engine: tuple[str, str, str]) -> None:
    name, version, gauge = engine
    settings = model(engine=name, version=version, workload={**WORKLOAD, "port": 8100})
    command = container(workload(settings))["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:2] == ["python3", "-c"]
    ast.parse(command[2])
    assert gauge in command[2]
    assert ":8100/metrics" in command[2]


@pytest.mark.parametrize("surge", [0, 2])
def test_rollouts_surge_only_as_far_as_the_quota_was_checked_for(surge: int) -> None:
    one = workload(model(surge=surge, workload=WORKLOAD))["spec"]["strategy"]["rollingUpdate"]
    several = workload(model(surge=surge, hosts=2, workload=WORKLOAD))["spec"]["rolloutStrategy"]
    assert one == {"maxSurge": surge, "maxUnavailable": 1}
    assert several["rollingUpdateConfiguration"] == {"maxSurge": surge, "maxUnavailable": 1}


def test_a_gang_is_created_and_restarted_as_a_whole_and_only_its_leader_is_probed() -> None:
    manifest = workload(model(hosts=3, workload=WORKLOAD))
    spec = manifest["spec"]
    assert (spec["startupPolicy"], spec["leaderWorkerTemplate"]["size"]) == ("LeaderCreated", 3)
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    worker = container(manifest, "workerTemplate")
    assert not {"startupProbe", "readinessProbe", "livenessProbe", "ports"} & set(worker)
    assert container(manifest)["livenessProbe"]


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"hosts": 2, "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}},
            "no gang of a Deployment",
        ),
        (
            {"workload": WORKLOAD, "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}},
            "leave one out",
        ),
        ({"hosts": 2, "workload": WORKLOAD, "version": "0.11.0"}, "vLLM 0.11.0 spans 2 hosts only with a Ray cluster"),
        ({"engine": "trtllm", "version": "1.0.0", "workload": WORKLOAD}, "as decode"),
        ({"workload": {**WORKLOAD, "args": ["--port=9000"]}}, "set workload.port"),
    ],
)
def test_what_would_not_run_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        workload_manifests("chat", model(**settings), "decode", **surroundings())


def test_a_name_too_long_for_a_label_is_refused() -> None:
    with pytest.raises(ManifestError, match="of at most 63"):
        pod_contract("m" * 60, model(), "decode", **surroundings())


# The contract -----------------------------------------------------------------------------------------------------


def test_the_stacks_own_workload_keeps_the_contract_that_others_are_shown() -> None:
    settings = model(hosts=2, workload=WORKLOAD)
    around = {"efa": True, "zones": ["us-east-1b"], "topology": ["zone", "host"], "shard": "h100"}
    shown = contract(settings, **around).as_dict()
    manifest = workload(settings, **around)
    assert manifest["metadata"]["labels"] == shown["owner"]["labels"]
    assert manifest["metadata"]["annotations"] == shown["owner"]["annotations"]
    for which in ("leaderTemplate", "workerTemplate"):
        declared = template(manifest, which)
        assert declared["metadata"] == shown["pods"]["metadata"]
        for key, value in shown["pods"]["spec"].items():
            if key != "containers":
                assert declared["spec"][key] == value
        devices = shown["pods"]["spec"]["containers"][0]["resources"]["limits"]
        assert devices.items() <= container(manifest, which)["resources"]["limits"].items()


def test_a_dynamo_deployment_names_its_queue_in_an_annotation() -> None:
    shown = contract(model(target={"deployment": "chat", "component": "decode"}), shard="h100")
    assert shown.owner_kind == "DynamoGraphDeployment"
    assert shown.owner_annotations == {"nvidia.com/kai-scheduler-queue": "chat"}
    assert shown.owner_labels == {}
    assert any("PodGang" in note for note in shown.notes)


@pytest.mark.parametrize("kind", [*OPT_IN, "PodClique", "RayService", "SomethingElse"])
def test_every_kind_is_told_where_its_queue_goes(kind: str) -> None:
    shown = contract(model(target={"apiVersion": "x/v1", "kind": kind, "name": "x"})).as_dict()
    assert "queue" in shown["owner"]["queue"]
    assert shown["owner"]["gang"]
    assert yaml.safe_load(yaml.safe_dump(shown)) == shown


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"signal": {"backlog": "1s", "tokensPerSecond": 1000}}, "inflight-load-producer"),
        ({"signal": {"flowControlQueue": 1, "inferencePool": "p"}}, "flowControl"),
        ({"preemptible": True}, "no PodDisruptionBudget holds them"),
        ({}, "llm_d_ai_role"),
        ({"hosts": 2}, "worker-index"),
    ],
)
def test_the_notes_say_what_no_field_can(settings: dict[str, Any], word: str) -> None:
    assert any(word in note for note in contract(model(**settings)).notes)


# Any valid settings -----------------------------------------------------------------------------------------------


@st.composite
def declared(draw: st.DrawFn) -> tuple[ModelSettings, dict[str, Any]]:
    """A role with a workload of any kind that can be declared, and what surrounds it."""
    role = draw(st.sampled_from(get_args(RoleName)))
    settings = model(
        role,
        engine=(engine := draw(st.sampled_from(["vllm", "sglang"]))),
        version="0.12.0" if engine == "vllm" else "0.5.5",
        gpus=draw(st.sampled_from([1, 2, 4, 8])),
        hosts=draw(st.integers(1, 4)),
        surge=draw(st.integers(0, 2)),
        preemptible=draw(st.booleans()),
        coldStart=draw(st.sampled_from(["20s", "7m", "90m"])),
        servedName=draw(st.sampled_from([None, "chat"])),
        workload={
            "image": "registry.example/engine:1",
            "args": draw(st.lists(st.sampled_from(["--max-model-len=8192", "--tp-size", "--enable-prefix-caching"]))),
            "env": draw(st.dictionaries(st.sampled_from(["HF_HOME", "VLLM_NIXL_SIDE_CHANNEL_PORT"]), st.just("x"))),
            "serviceAccount": draw(st.sampled_from([None, "models"])),
            "imagePullSecrets": draw(st.lists(st.just("pull"), max_size=1)),
        },
    )
    around = surroundings(
        kai=draw(st.sampled_from(["0.12.23", "0.16.8", "0.17.0"])),
        karpenter=draw(st.sampled_from(["1.9.0", "1.14.1", "1.15.0"])),
        purpose=draw(st.sampled_from(["serving", "training"])),
        efa=draw(st.booleans()),
        zones=["us-east-1b"],
        shard=draw(st.sampled_from([None, "h100"])),
        topology=draw(st.sampled_from([[], ["zone"], ["zone", "host"], ["zone", "example.com/rack", "host"]])),
        taints=draw(
            st.lists(st.fixed_dictionaries({"key": st.just("team")}, optional={"value": st.just("a")}), max_size=1)
        ),
    )
    return settings, around


@given(case=declared())
def test_any_declared_workload_fits_the_api(case: tuple[ModelSettings, dict[str, Any]], crd_errors: CrdErrors) -> None:
    settings, around = case
    (role,) = settings.roles
    _, manifest = workload_manifests("chat", settings, role, **around)
    if manifest["kind"] == "Deployment":
        # The LeaderWorkerSet's CRD holds the whole PodTemplateSpec: borrow it for the Deployment's.
        manifest = {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": manifest["metadata"],
            "spec": {"leaderWorkerTemplate": {"size": 1, "workerTemplate": manifest["spec"]["template"]}},
        }
    assert crd_errors(manifest) == []
    pods = [t for key, t in manifest["spec"]["leaderWorkerTemplate"].items() if key.endswith("Template")]
    for pod in pods:
        assert all(toleration.get("key") for toleration in pod["spec"]["tolerations"])
        (only,) = pod["spec"]["containers"]
        names = [variable["name"] for variable in only.get("env", [])]
        assert len(names) == len(set(names))
        assert only["args"][len(only["args"]) - len(args := settings.roles[role].workload.args) :] == list(args)  # type: ignore[union-attr]


@given(cold_start=st.integers(1, 7200))
def test_any_cold_start_is_covered_twice(cold_start: int) -> None:
    probe = container(workload(model(coldStart=f"{cold_start}s", workload=WORKLOAD)))["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 2 * cold_start
