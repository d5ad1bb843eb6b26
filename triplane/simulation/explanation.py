"""Why requests were late: the chain from the signal to the ready replica, for the worst minutes of a run."""

from collections.abc import Sequence

from triplane.simulation.results import Timeline


def explain(timeline: Timeline, roles: Sequence[str], worst: int = 3) -> list[str]:
    return []
