"""Ways to run a stack, side by side: each changes the signal, the scheduler, the provisioner or the consolidation.

This is the only place that can name an unsafe choice. Stack files cannot express one, and nothing outside the
simulation and its commands imports this module.
"""

import difflib
from dataclasses import dataclass, field
from typing import Literal

from triplane.simulation.errors import SimulationError
from triplane.simulation.provenance import Coefficient

Signal = Literal["declared", "dutyCycle", "queueDepth"]
Behaviour = Literal["derived", "hpaDefaults"]
Scheduler = Literal["kai", "kubeScheduler"]
Provisioner = Literal["karpenter", "clusterAutoscaler"]
Consolidation = Literal["asDeclared", "whenEmptyOrUnderutilized"]


class UnknownStrategy(SimulationError):
    """No strategy of that name; the message lists what there is."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to run the three layers. What is left out stays as the stack declares it."""

    name: str
    line: str
    """What it stands for, in one line."""
    signal: Signal = "declared"
    behaviour: Behaviour = "derived"
    """How fast replicas may move: from the cold start, or the HPA's own defaults."""
    scheduler: Scheduler = "kai"
    provisioner: Provisioner = "karpenter"
    consolidation: Consolidation = "asDeclared"
    target: float = 0.0
    """Of the signal, where it is not the declared one: percent busy, or requests waiting a replica."""
    null_reads_as_zero: bool = False
    """A metric that cannot be read counts as 0, KEDA's default, instead of holding the replicas."""
    coefficients: tuple[Coefficient, ...] = field(default=())

    @property
    def overlay(self) -> dict[str, str]:
        """What it sets, by layer."""
        return {
            "signal": self.signal + (f" {self.target:g}" if self.target else ""),
            "behaviour": self.behaviour,
            "scheduler": self.scheduler,
            "provisioner": self.provisioner,
            "consolidation": self.consolidation,
        }


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy(name="asDeclared", line="the stack as it is"),
        Strategy(
            name="dutyCycleHpa",
            line="an HPA on GPU utilization with its default behaviour, kube-scheduler, Karpenter",
            signal="dutyCycle",
            behaviour="hpaDefaults",
            scheduler="kubeScheduler",
            target=70.0,
            coefficients=(
                Coefficient("dutyCycleHpa: target", 70, "% busy", "assumed", "a usual target of GPU utilization HPAs"),
            ),
        ),
        Strategy(
            name="queueDepthHpa",
            line="an HPA on waiting requests with its default behaviour, kube-scheduler, Karpenter",
            signal="queueDepth",
            behaviour="hpaDefaults",
            scheduler="kubeScheduler",
            target=5.0,
            coefficients=(
                Coefficient(
                    "queueDepthHpa: target", 5, "waiting a replica", "published", "saturation queue threshold of WVA v1"
                ),
            ),
        ),
        Strategy(
            name="tripleLayer", line="a signal for each role, gangs on KAI, Karpenter that removes empty nodes only"
        ),
        Strategy(
            name="clusterAutoscaler",
            line="tripleLayer, with nodes from the Cluster Autoscaler",
            provisioner="clusterAutoscaler",
        ),
        Strategy(
            name="consolidating",
            line="tripleLayer, with Karpenter's default consolidation of nodes in use",
            consolidation="whenEmptyOrUnderutilized",
        ),
        Strategy(
            name="nullReadsAsZero",
            line="tripleLayer, with KEDA's default that a metric without a value reads as 0",
            null_reads_as_zero=True,
        ),
        Strategy(
            name="kubeScheduler",
            line="tripleLayer, with pods placed one at a time and no queues",
            scheduler="kubeScheduler",
        ),
    )
}


def strategy(name: str) -> Strategy:
    """A strategy by name. Raises UnknownStrategy with the nearest name."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    by_letters = {known.lower(): known for known in STRATEGIES}
    near = difflib.get_close_matches(name.lower(), by_letters, 1)
    hint = f". Did you mean {by_letters[near[0]]}?" if near else ""
    raise UnknownStrategy(f"no strategy {name}{hint} There are {', '.join(STRATEGIES)}")
