"""Made-up but ordinary manifests, as many as asked for: the same number gives the same text."""

from collections.abc import Iterator
from pathlib import Path

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: model-{n}
  namespace: team-{team}
  labels:
    app.kubernetes.io/name: model-{n}
    kai.scheduler/queue: team-{team}-{queue}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: model-{n}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: model-{n}
        kai.scheduler/queue: team-{team}-{queue}
    spec:
      schedulerName: kai-scheduler
      priorityClassName: inference
      nodeSelector:
        karpenter.sh/nodepool: pool-{pool}
      tolerations:
        - key: nvidia.com/gpu
          operator: Exists
          effect: NoSchedule
      terminationGracePeriodSeconds: 180
      containers:
        - name: vllm
          image: vllm/vllm-openai@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
          args:
            - --model=meta-llama/Llama-3.1-8B-Instruct
            - --tensor-parallel-size=1
            - --max-num-seqs=64
          ports:
            - name: http
              containerPort: 8000
          startupProbe:
            httpGet: {{path: /health, port: http}}
            failureThreshold: 120
            periodSeconds: 10
          readinessProbe:
            httpGet: {{path: /health, port: http}}
          lifecycle:
            preStop:
              sleep:
                seconds: 20
          resources:
            requests:
              cpu: "6"
              memory: 40Gi
              nvidia.com/gpu: 1
            limits:
              memory: 40Gi
              nvidia.com/gpu: 1
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: model-{n}
  namespace: team-{team}
  labels:
    app.kubernetes.io/name: model-{n}
spec:
  selector:
    app.kubernetes.io/name: model-{n}
  ports:
    - name: http
      port: 80
      targetPort: http
"""
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: model-{n}
  namespace: team-{team}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: model-{n}
"""
SCALED_OBJECT = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: model-{n}
  namespace: team-{team}
spec:
  scaleTargetRef:
    name: model-{n}
  minReplicaCount: 2
  maxReplicaCount: 6
  pollingInterval: 15
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp:
          stabilizationWindowSeconds: 0
          policies:
            - type: Pods
              value: 1
              periodSeconds: 300
        scaleDown:
          stabilizationWindowSeconds: 900
          policies:
            - type: Pods
              value: 1
              periodSeconds: 300
  fallback:
    failureThreshold: 3
    replicas: 4
  triggers:
    - type: prometheus
      metadata:
        serverAddress: http://prometheus.monitoring.svc:9090
        query: sum(vllm:num_requests_waiting{{app="model-{n}"}})
        threshold: "8"
        ignoreNullValues: "false"
"""
GATEWAY = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: gateway-{n}
  namespace: team-{team}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: gateway-{n}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: gateway-{n}
    spec:
      containers:
        - name: gateway
          image: example.com/gateway@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
          env:
            - name: MODEL_URL
              value: "http://model-{n}"
          resources:
            requests: {{cpu: "1", memory: 1Gi}}
            limits: {{memory: 1Gi}}
"""
AUTOSCALER = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: gateway-{n}
  namespace: team-{team}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: gateway-{n}
  minReplicas: 2
  maxReplicas: 6
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: 70
"""
NODE_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: pool-{pool}
spec:
  weight: 10
  limits:
    cpu: "1920"
    memory: 20Ti
    nvidia.com/gpu: "80"
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: {idle}
    budgets:
      - nodes: "1"
      - nodes: "0"
        reasons: [Drifted]
  template:
    metadata:
      labels:
        example.com/pool: pool-{pool}
    spec:
      expireAfter: Never
      terminationGracePeriod: 1h
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: gpu
      taints:
        - key: nvidia.com/gpu
          value: "true"
          effect: NoSchedule
      requirements:
        - key: kubernetes.io/arch
          operator: In
          values: [amd64]
        - key: karpenter.sh/capacity-type
          operator: In
          values: [on-demand]
        - key: node.kubernetes.io/instance-type
          operator: In
          values: [p5.48xlarge]
"""
QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: team-{team}-{queue}
spec:
  parentQueue: team-{team}
  priority: 100
  resources:
    gpu:
      quota: 8
      limit: 16
      overQuotaWeight: 1
    cpu:
      quota: -1
      limit: -1
      overQuotaWeight: 1
    memory:
      quota: -1
      limit: -1
      overQuotaWeight: 1
"""
PARENT_QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: team-{team}
spec:
  resources:
    gpu:
      quota: 80
      limit: 160
      overQuotaWeight: 1
    cpu:
      quota: -1
      limit: -1
      overQuotaWeight: 1
    memory:
      quota: -1
      limit: -1
      overQuotaWeight: 1
"""
NODE_CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu
spec:
  role: karpenter-node
  amiSelectorTerms:
    - alias: al2023@v20260901
  subnetSelectorTerms:
    - tags:
        karpenter.sh/discovery: prod
  securityGroupSelectorTerms:
    - tags:
        karpenter.sh/discovery: prod
  instanceStorePolicy: RAID0
  metadataOptions:
    httpTokens: required
  blockDeviceMappings:
    - deviceName: /dev/xvda
      ebs:
        volumeSize: 500Gi
        volumeType: gp3
        encrypted: true
"""
KINDS = (DEPLOYMENT, SCALED_OBJECT, NODE_POOL, QUEUE, BUDGET, SERVICE, GATEWAY, AUTOSCALER)
MODELS_OF_A_TEAM = 10
"""Each model has a pool, a queue and a gateway of its own; a team's queues share a parent."""


def manifests(count: int) -> Iterator[str]:
    """`count` objects of one cluster. One pool in five gives idle nodes back too soon."""
    yield NODE_CLASS
    made, model = 1, 0
    while made < count:
        names = {"n": model, "pool": model, "team": model // MODELS_OF_A_TEAM, "queue": model % MODELS_OF_A_TEAM}
        names["idle"] = "10m" if model % 5 == 0 else "2h"
        kinds = (PARENT_QUEUE, *KINDS) if model % MODELS_OF_A_TEAM == 0 else KINDS
        for kind in kinds[: count - made]:
            yield kind.format(**names)
        made += len(kinds)
        model += 1


def crowd(models: int) -> str:
    """So many models in one namespace, queue and pool, as one text: whatever compares each with each shows here."""
    names = {"team": 0, "pool": 0, "queue": 0, "idle": "2h"}
    shared = [NODE_CLASS, PARENT_QUEUE.format(**names), QUEUE.format(**names), NODE_POOL.format(**names)]
    own = (DEPLOYMENT, SCALED_OBJECT, BUDGET, SERVICE, GATEWAY, AUTOSCALER)
    return "---\n".join([*shared, *(kind.format(n=n, **names) for n in range(models) for kind in own)])


def write_files(folder: Path, count: int) -> Path:
    """One object a file."""
    folder.mkdir()
    for number, text in enumerate(manifests(count)):
        (folder / f"{number:05}.yaml").write_text(text, encoding="utf-8")
    return folder
