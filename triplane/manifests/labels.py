"""Names that tie the three layers together: label, annotation and resource keys, each written in this one place.

A node, a queue and a pod find each other only through these keys: a second spelling anywhere parts them silently.
"""

from typing import Final

POOL: Final = "triplane.dev/pool"
"""Node label: the pool. Pods select it."""
PURPOSE: Final = "triplane.dev/purpose"
"""Node label: serving, training or batch."""

QUEUE: Final = "kai.scheduler/queue"
"""Label of workloads: their KAI queue. KAI ignores an annotation of this name."""
SHARD: Final = "kai.scheduler/node-pool"
"""Label of nodes, queues and pods alike: the KAI scheduling shard. None: the default shard."""
PREEMPTIBILITY: Final = "kai.scheduler/preemptibility"
"""Label of workloads: preemptible or non-preemptible, whatever their priority (KAI 0.10)."""

APP: Final = "app.kubernetes.io/name"
"""Label of pods: <model>-<role>."""
MODEL: Final = "llm-d.ai/model"
"""Label of pods: the model's name in the stack."""
ROLE: Final = "llm-d.ai/role"
"""Label of pods: what llm-d's endpoint picker routes on."""

GPU: Final = "nvidia.com/gpu"
"""Extended resource, and the key of every GPU pool's taint."""
EFA: Final = "vpc.amazonaws.com/efa"
"""Extended resource of Elastic Fabric Adapters."""

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"

SCHEDULER: Final = "kai-scheduler"
"""schedulerName of every pod that KAI places."""


def role_name(model: str, role: str) -> str:
    """`chat`, `prefill` -> `chat-prefill`: name of a role's workload, scaler and budget, and value of its pods' APP."""
    return f"{model}-{role}"


def role_label(role: str) -> str:
    """Value of ROLE. llm-d-router (0.10) calls a pod for both phases `prefill-decode` and drops unknown values."""
    return "prefill-decode" if role == "aggregated" else role
