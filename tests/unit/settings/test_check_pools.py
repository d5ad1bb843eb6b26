"""Each check of pools: what it accepts and what it refuses."""

import pytest
from changed_stack import REMOVED, Changes, Check, found_by

from triplane.settings.checks import platform, pools

S, T = "pools.serving", "pools.training"
STATIC = {"platform.karpenter.gates": ["StaticCapacity"]}
BATCH = {"purpose": "batch", "accelerator": "L4", "gpusPerNode": 4, "nodes": {"max": 1}, "ami": "al2023@v20261115"}
OWN_CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpus"}
AUTO = {
    "cluster.cloud": "existing",
    "cluster.dialect": "eks-auto",
    "cluster.aws": {"nodeRole": "nodes"},
    "platform.karpenter.install": False,
    T: REMOVED,
}

ACCEPTED: list[tuple[Check, Changes]] = [
    (pools.accelerator_is_known, {f"{S}.accelerator": "h100"}),
    (pools.accelerator_is_known, {f"{S}.gpusPerNode": 1}),
    (pools.capacity_fits_purpose, {f"{S}.capacity": {"reserved": ["cr-1"]}}),
    (pools.capacity_fits_purpose, {"pools.jobs": {**BATCH, "capacity": {"fallback": "spot"}}}),
    (pools.capacity_fits_purpose, {f"{T}.capacity": {"blocks": ["cr-2"]}}),
    (pools.capacity_fits_purpose, {f"{S}.capacity": {"blocks": ["cr-2"], "fallback": "on-demand"}}),
    (pools.disruption_is_as_safe_as_the_purpose, {f"{S}.disruption": {"consolidateAfter": "1h"}}),
    (pools.disruption_is_as_safe_as_the_purpose, {f"{T}.disruption": {"consolidateAfter": "Never"}}),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {f"{S}.disruption": {"expireAfter": "30d", "terminationGracePeriod": "1h"}},
    ),
    (pools.disruption_is_as_safe_as_the_purpose, {f"{T}.disruption": {"expireAfter": "Never"}}),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {
            "pools.jobs": {
                **BATCH,
                "longestJob": "6h",
                "disruption": {"expireAfter": "7h", "terminationGracePeriod": "1h", "consolidateAfter": "15m"},
            }
        },
    ),
    (pools.one_zone, {f"{S}.efa": False, f"{S}.zones": []}),
    (pools.one_zone, {f"{S}.placementGroup": "cluster"}),
    (pools.efa_exists, {}),
    (pools.release_has_the_fields, {"platform.karpenter.version": "1.11.0", f"{S}.placementGroup": "cluster"}),
    (pools.release_has_the_fields, {"platform.karpenter.version": "1.9.0"}),
    (pools.static_pool_is_possible, {**STATIC, f"{S}.nodes": {"max": 6, "static": 5}}),
    (
        pools.static_pool_is_possible,
        {
            "platform.karpenter": {"version": "1.15.1", "gates": ["StaticCapacity", "TerminateFirstDrift"]},
            f"{S}.nodes": {"max": 6, "static": 6},
        },
    ),
    (pools.image_is_pinned, {f"{S}.ami": REMOVED, f"{S}.nodeClass": OWN_CLASS, f"{S}.efa": REMOVED}),
    (
        pools.node_class_carries_its_own,
        {f"{S}.ami": REMOVED, f"{S}.efa": REMOVED, f"{S}.nodeClass": OWN_CLASS, f"{S}.capacity": REMOVED},
    ),
    (pools.auto_mode_can_express_it, {**AUTO, f"{S}.ami": REMOVED, f"{S}.efa": False}),
    (platform.auto_mode_brings_its_own_karpenter, AUTO),
    (pools.labels_taints_and_tags_are_free, {f"{S}.labels": {"team": "chat"}, f"{S}.tags": {"cost": "1"}}),
    (pools.labels_taints_and_tags_are_free, {f"{S}.taints": [{"key": "nvidia.com/gpu", "value": "present"}]}),
    (pools.maintenance_days_differ, {}),
    (pools.topology_is_ordered, {f"{S}.topology": ["zone", "example.com/rack", "host"]}),
    (pools.shard_is_free, {f"{S}.shard": "h100"}),
]

REFUSED: list[tuple[Check, Changes, str]] = [
    (
        pools.accelerator_is_known,
        {f"{S}.accelerator": "H100-SMX5"},
        "pools.serving.accelerator: unknown accelerator 'H100-SMX5': did you mean H100-SXM5",
    ),
    (pools.accelerator_is_known, {f"{S}.accelerator": "GB200"}, "is not supported: Karpenter does not list p6e-gb200"),
    (
        pools.accelerator_is_known,
        {f"{S}.gpusPerNode": 6},
        "pools.serving.gpusPerNode: no instance type has 6 H100-SXM5. Set gpusPerNode: 1 or 8",
    ),
    (pools.capacity_fits_purpose, {f"{S}.capacity": {}}, "pools.serving.capacity: names no source of nodes"),
    (
        pools.capacity_fits_purpose,
        {f"{S}.capacity": {"fallback": "spot"}},
        "purpose serving cannot bear. Set on-demand",
    ),
    (pools.capacity_fits_purpose, {f"{T}.capacity": {"fallback": "spot"}}, "purpose training cannot bear"),
    (pools.capacity_fits_purpose, {f"{S}.capacity": {"blocks": ["cr-1"]}}, "pools.serving.capacity.blocks: a Capacity"),
    (pools.capacity_fits_purpose, {f"{S}.capacity.reserved": ["cr-1", "cr-1"]}, "cr-1 stands here twice"),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {f"{S}.disruption": {"consolidateAfter": "59m"}},
        "pools.serving.disruption.consolidateAfter: 59m is shorter than the 1h that purpose serving keeps",
    ),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {f"{T}.disruption": {"consolidateAfter": "10m"}},
        "10m is shorter than the 30m that purpose training",
    ),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {"pools.jobs": {**BATCH, "disruption": {"consolidateAfter": "10m"}}},
        "10m is shorter than the 15m that purpose batch",
    ),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {f"{S}.disruption": {"expireAfter": "30d"}},
        "expireAfter: without terminationGracePeriod one protected pod keeps an expired node",
    ),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {f"{T}.disruption": {"expireAfter": "30d"}},
        "pools.training.disruption.expireAfter: ends running jobs",
    ),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {f"{T}.disruption": {"terminationGracePeriod": "1h"}},
        "pools.training.disruption.terminationGracePeriod: opens drift",
    ),
    (
        pools.disruption_is_as_safe_as_the_purpose,
        {
            "pools.jobs": {
                **BATCH,
                "longestJob": "6h",
                "disruption": {"expireAfter": "6h", "terminationGracePeriod": "1h"},
            }
        },
        "pools.jobs.disruption.expireAfter: 6h is no longer than longestJob, 6h",
    ),
    (pools.one_zone, {f"{S}.zones": []}, "pools.serving.efa: needs exactly one zone, found none"),
    (pools.one_zone, {f"{S}.zones": ["us-east-1a", "us-east-1b"]}, "found us-east-1a, us-east-1b"),
    (
        pools.one_zone,
        {f"{S}.efa": False, f"{S}.zones": ["us-east-1a", "us-east-1b"], f"{S}.placementGroup": "x"},
        "pools.serving.placementGroup: needs exactly one zone",
    ),
    (pools.one_zone, {f"{S}.zones": ["us-west-2a"]}, "zones[0]: us-west-2a is no zone of region us-east-1"),
    (pools.one_zone, {f"{S}.zones": ["us-east-1b", "us-east-1b"]}, "a zone stands here twice"),
    (
        pools.efa_exists,
        {f"{S}.accelerator": "L4", f"{S}.gpusPerNode": 1},
        "pools.serving.efa: instance types with 1 L4 have no EFA. Remove efa",
    ),
    (
        pools.release_has_the_fields,
        {"platform.karpenter.version": "1.10.0", f"{S}.placementGroup": "x"},
        "pools.serving.placementGroup: needs Karpenter 1.11, and this stack has 1.10.0",
    ),
    (
        pools.release_has_the_fields,
        {"platform.karpenter.version": "1.10.0", f"{S}.nodes": {"max": 3, "static": 2}},
        "pools.serving.efa: needs Karpenter 1.11",
    ),
    (
        pools.release_has_the_fields,
        {"platform.karpenter.version": "1.7.0", f"{S}.nodes": {"max": 3, "static": 2}},
        "pools.serving.nodes.static: needs Karpenter 1.8",
    ),
    (
        pools.release_has_the_fields,
        {"platform.karpenter.version": "1.5.0", f"{T}.capacity": {"blocks": ["cr-1"]}},
        "pools.training.capacity.blocks: needs Karpenter 1.6",
    ),
    (
        pools.static_pool_is_possible,
        {f"{S}.nodes": {"max": 6, "static": 5}},
        "pools.serving.nodes.static: needs a feature gate. Set platform: {karpenter: {gates: [StaticCapacity]}}",
    ),
    (pools.static_pool_is_possible, {**STATIC, f"{S}.nodes": {"max": 6, "static": 7}}, "7 nodes are more than max: 6"),
    (pools.static_pool_is_possible, {**STATIC, f"{S}.nodes": {"max": 6, "static": 6}}, "Set max: 7"),
    (
        pools.static_pool_is_possible,
        {**STATIC, f"{S}.nodes": {"max": 6, "static": 5}, f"{S}.weight": 5},
        "pools.serving.weight: a static pool launches nothing for pods",
    ),
    (pools.image_is_pinned, {f"{S}.ami": REMOVED}, "pools.serving: needs a pinned image. Set ami: al2023@v20261115"),
    (pools.node_class_carries_its_own, {f"{S}.nodeClass": OWN_CLASS}, "pools.serving.ami: belongs to the NodeClass"),
    (
        pools.node_class_carries_its_own,
        {f"{S}.nodeClass": OWN_CLASS},
        "pools.serving.capacity.reserved: is selected in the NodeClass",
    ),
    (
        pools.node_class_carries_its_own,
        {f"{S}.nodeClass": {**OWN_CLASS, "group": "eks.amazonaws.com", "kind": "NodeClass"}},
        "pools.serving.nodeClass: dialect aws needs group: karpenter.k8s.aws and kind: EC2NodeClass",
    ),
    (pools.auto_mode_can_express_it, AUTO, "pools.serving.ami: EKS Auto Mode chooses this itself"),
    (pools.auto_mode_can_express_it, AUTO, "pools.serving.efa: EKS Auto Mode chooses this itself"),
    (
        pools.auto_mode_can_express_it,
        {**AUTO, f"{S}.storage": {"localNvme": False}},
        "pools.serving.storage.localNvme: EKS Auto Mode",
    ),
    (
        pools.auto_mode_can_express_it,
        {**AUTO, f"{S}.disruption": {"expireAfter": "Never"}},
        "pools.serving.disruption.expireAfter: EKS Auto Mode replaces every node after 21 days",
    ),
    (pools.auto_mode_can_express_it, {**AUTO, f"{S}.purpose": "training"}, "under a running job too"),
    (
        pools.labels_taints_and_tags_are_free,
        {f"{S}.labels": {"karpenter.sh/nodepool": "x"}},
        'pools.serving.labels["karpenter.sh/nodepool"]: is set by Karpenter',
    ),
    (pools.labels_taints_and_tags_are_free, {f"{S}.labels": {"triplane.dev/pool": "x"}}, "by this pool itself"),
    (pools.labels_taints_and_tags_are_free, {f"{S}.tags": {"karpenter.sh/nodepool": "x"}}, "finds its instances"),
    (
        pools.labels_taints_and_tags_are_free,
        {f"{S}.taints": [{"key": "nvidia.com/gpu", "effect": "NoExecute"}]},
        "pools.serving.taints[0]: nvidia.com/gpu is always there",
    ),
    (
        pools.labels_taints_and_tags_are_free,
        {f"{S}.taints": [{"key": "a"}], f"{S}.startupTaints": [{"key": "a"}]},
        "pools.serving.startupTaints[0]: a:NoSchedule stands twice",
    ),
    (
        pools.maintenance_days_differ,
        {f"{S}.maintenance.days": ["sat", "sat"]},
        "pools.serving.maintenance.days: sat stands here twice",
    ),
    (pools.topology_is_ordered, {f"{S}.topology": ["zone", "zone"]}, "a level stands here twice"),
    (pools.topology_is_ordered, {f"{S}.topology": ["host", "zone"]}, "pools.serving.topology: host is the narrowest"),
    (pools.shard_is_free, {f"{S}.shard": "default"}, "pools.serving.shard: default is the shard"),
    (pools.shard_is_free, {"queues.research.shard": "default"}, "queues.research.shard: default is the shard"),
]


@pytest.mark.parametrize(("check", "changes"), ACCEPTED)
def test_accepted(check: Check, changes: Changes) -> None:
    assert found_by(check, changes) == []


@pytest.mark.parametrize(("check", "changes", "message"), REFUSED)
def test_refused(check: Check, changes: Changes, message: str) -> None:
    found = found_by(check, changes)
    assert any(message in line for line in found), found


def test_every_check_is_accepted_once_and_refused_once() -> None:
    assert set(pools.CHECKS) <= {check for check, _ in ACCEPTED}
    assert set(pools.CHECKS) <= {check for check, _, _ in REFUSED}
