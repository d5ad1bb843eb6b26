"""The table of pod templates: every kind that makes pods, and how many pods and GPUs one replica of it has."""

from typing import Any

import pytest
import yaml

from triplane.documents import render_path
from triplane.inventory import Origin, Resource
from triplane.inventory.workloads import Workload

POD = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}


def workload(text: str) -> Workload:
    data = yaml.safe_load(text.replace("POD", "{containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}"))
    return Workload(Resource(data, Origin()))


TABLE = [
    ("{apiVersion: v1, kind: Pod, spec: POD}", 1, 2, "spec"),
    ("{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3, template: {spec: POD}}}", 1, 2, "spec.template.spec"),
    ("{apiVersion: apps/v1, kind: StatefulSet, spec: {template: {spec: POD}}}", 1, 2, "spec.template.spec"),
    ("{apiVersion: apps/v1, kind: DaemonSet, spec: {template: {spec: POD}}}", 1, 2, "spec.template.spec"),
    ("{apiVersion: argoproj.io/v1alpha1, kind: Rollout, spec: {template: {spec: POD}}}", 1, 2, "spec.template.spec"),
    ("{apiVersion: batch/v1, kind: Job, spec: {parallelism: 4, template: {spec: POD}}}", 4, 8, "spec.template.spec"),
    (
        "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: POD}}}}}",
        1,
        2,
        "spec.jobTemplate.spec.template.spec",
    ),
    (
        "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: "
        "[{name: w, replicas: 2, template: {spec: {parallelism: 3, template: {spec: POD}}}}]}}",
        6,
        12,
        "spec.replicatedJobs[0].template.spec.template.spec",
    ),
    (
        "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, spec: {leaderWorkerTemplate: "
        "{size: 4, workerTemplate: {spec: POD}}}}",
        4,
        8,
        "spec.leaderWorkerTemplate.workerTemplate.spec",
    ),
    (
        "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, spec: {leaderWorkerTemplate: "
        "{size: 4, leaderTemplate: {spec: POD}, workerTemplate: {spec: POD}}}}",
        4,
        8,
        "spec.leaderWorkerTemplate.leaderTemplate.spec",
    ),
    (
        "{apiVersion: ray.io/v1, kind: RayCluster, spec: {headGroupSpec: {template: {spec: {containers: []}}}, "
        "workerGroupSpecs: [{groupName: g, replicas: 3, numOfHosts: 2, template: {spec: POD}}]}}",
        7,
        12,
        "spec.headGroupSpec.template.spec",
    ),
    (
        "{apiVersion: ray.io/v1, kind: RayService, spec: {rayClusterConfig: {headGroupSpec: {template: {spec: POD}}}}}",
        1,
        2,
        "spec.rayClusterConfig.headGroupSpec.template.spec",
    ),
    (
        "{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, spec: {replicas: 2, template: {cliques: "
        "[{name: a, spec: {replicas: 3, podSpec: POD}}]}}}",
        3,
        6,
        "spec.template.cliques[0].spec.podSpec",
    ),
    (
        "{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, spec: {services: {decode: "
        '{replicas: 2, multinode: {nodeCount: 2}, resources: {limits: {gpu: "4"}}, '
        "extraPodSpec: {mainContainer: {image: x}}}}}}",
        4,
        16,
        "spec.services.decode.extraPodSpec",
    ),
    (
        "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, spec: {components: "
        "[{name: decode, replicas: 2, podTemplate: {spec: POD}}]}}",
        2,
        4,
        "spec.components[0].podTemplate.spec",
    ),
    (
        "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, spec: {predictor: "
        "{model: {resources: {limits: {nvidia.com/gpu: 2}}}}}}",
        1,
        2,
        "spec.predictor",
    ),
    (
        "{apiVersion: serving.kserve.io/v1alpha1, kind: LLMInferenceService, "
        "spec: {template: POD, prefill: {template: POD}}}",
        2,
        4,
        "spec.template",
    ),
    (
        "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {pytorchReplicaSpecs: "
        "{Master: {replicas: 1, template: {spec: POD}}, Worker: {replicas: 3, template: {spec: POD}}}}}",
        4,
        8,
        "spec.pytorchReplicaSpecs.Master.template.spec",
    ),
    (
        "{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, spec: {mpiReplicaSpecs: "
        "{Worker: {replicas: 2, template: {spec: POD}}}}}",
        2,
        4,
        "spec.mpiReplicaSpecs.Worker.template.spec",
    ),
    (
        "{apiVersion: keda.sh/v1alpha1, kind: ScaledJob, spec: {jobTargetRef: {template: {spec: POD}}}}",
        1,
        2,
        "spec.jobTargetRef.template.spec",
    ),
    ("{apiVersion: serving.knative.dev/v1, kind: Service, spec: {template: {spec: POD}}}", 1, 2, "spec.template.spec"),
    (
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, spec: {tasks: "
        "[{name: t, replicas: 2, template: {spec: POD}}]}}",
        2,
        4,
        "spec.tasks[0].template.spec",
    ),
]


@pytest.mark.parametrize(("text", "pods", "gpus", "path"), TABLE, ids=lambda v: v[:60] if isinstance(v, str) else None)
def test_pods_and_gpus_of_one_replica(text: str, pods: int, gpus: float, path: str) -> None:
    found = workload(text)
    assert found.pods_per_replica == pods
    assert found.gpus_per_replica == gpus
    assert render_path(found.templates[0].path) == path
    assert found.uses_gpu


def test_every_kind_is_in_the_table_of_this_test() -> None:
    tested = {workload(text).kind for text, *_ in TABLE}
    same_shape = {
        "ReplicaSet.apps",
        "RayJob.ray.io",
        "TFJob.kubeflow.org",
        "XGBoostJob.kubeflow.org",
        "JAXJob.kubeflow.org",
    }
    assert set(Workload.KINDS) == tested | same_shape


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}] * 2}, 4),
        ({"containers": [{}], "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": 3}}}]}, 3),
        (
            {
                "containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}],
                "initContainers": [{"restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            },
            2,
        ),
        ({"containers": [{"resources": {"requests": {"nvidia.com/gpu": 1}}}]}, 1),
        ({"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.20gb": 1}}}]}, 1),
        ({"containers": [{"resources": {"limits": {"cpu": 4, "aws.amazon.com/neuron": 1}}}]}, 0),
    ],
)
def test_gpus_of_one_pod(spec: dict[str, Any], gpus: float) -> None:
    assert Workload(Resource({"apiVersion": "v1", "kind": "Pod", "spec": spec}, Origin())).templates[0].gpus == gpus


@pytest.mark.parametrize(
    ("pod", "uses"),
    [
        ({"spec": POD}, True),
        ({"spec": {"containers": [{}], "resourceClaims": [{"name": "gpu"}]}}, True),
        ({"spec": {"containers": [{}]}, "metadata": {"annotations": {"gpu-fraction": "0.5"}}}, True),
        ({"spec": {"containers": [{}]}}, False),
    ],
)
def test_ways_of_using_a_gpu(pod: dict[str, Any], uses: bool) -> None:
    assert Workload(Resource({"apiVersion": "v1", "kind": "Pod", **pod}, Origin())).uses_gpu is uses
