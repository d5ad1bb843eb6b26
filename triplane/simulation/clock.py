"""The order of events outside the kernel: by time, and at one time in the order they were planned."""

import heapq
import math
from collections.abc import Callable

Event = Callable[[float], None]


class Clock:
    """Events to come. An event is called with its time and may plan others, not earlier than itself."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Event]] = []
        self._count = 0

    def at(self, time: float, event: Event) -> None:
        """Plan an event; one at an infinite time never comes."""
        if math.isfinite(time):
            self._count += 1
            heapq.heappush(self._heap, (max(time, self.now), self._count, event))

    def every(self, period: float, first: float, event: Event) -> None:
        """Plan an event again and again."""

        def again(now: float) -> None:
            event(now)
            self.at(now + period, again)

        self.at(first, again)

    def run(self, until: float) -> None:
        """Call what comes before `until`, in order."""
        while self._heap and self._heap[0][0] < until:
            self.now, _, event = heapq.heappop(self._heap)
            event(self.now)
        self.now = until
