"""Two files that say everything a report can say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from triplane.inventory import Inventory
from triplane.inventory.files import Sources
from triplane.reporting.outcome import Outcome
from triplane.rules import Config, Profile, judge

POOL = """\
# a pool, and a scaler for it
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: h100}
spec:
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized}  # cheap
  template:
    spec:
      requirements:
        - {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [h100]}
---
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: chat, namespace: x, annotations: {triplane.dev/ignore: "AS420 until=2999-12-31 reason=planned"}}
spec: {modelID: a, minReplicas: 2, maxReplicas: 6}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: x}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: "a|b"}
  maxReplicas: 4
  metrics:
    - {type: Pods, pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}, target: {type: AverageValue, averageValue: "80"}}}
"""


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "pool.yaml").write_text(POOL)
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    sources = Sources()
    sources.read_paths(["."])
    report = judge(Inventory(sources.resources, sources.comments), Config(profile=Profile.ALL))
    assert not report.defects, report.defects[0].trace
    return Outcome(report, sources, tuple(sources.not_read))


@pytest.fixture
def outcome_of(tmp_path: Path) -> Callable[[str], Outcome]:
    def judged(text: str, name: str = "x.yaml") -> Outcome:
        (tmp_path / name).write_text(text)
        sources = Sources()
        sources.read_paths([str(tmp_path / name)])
        assert not sources.not_read, sources.not_read
        return Outcome(judge(Inventory(sources.resources, sources.comments)), sources)

    return judged
