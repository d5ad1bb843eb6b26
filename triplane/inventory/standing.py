"""GPUs that are in use whatever the load: those of every workload at its fewest replicas."""

from triplane.inventory.capacity import Destination
from triplane.inventory.inventory import Inventory
from triplane.inventory.queueing import Queueing
from triplane.inventory.queues import QueueTree
from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import Workload


class Standing:
    """GPUs in use at the fewest replicas, by place and by queue. Use `inventory.relation(Standing)`.

    A scaler that may go to zero counts as one replica: while a rollout takes place, something runs.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._scaling = inventory.relation(Scaling)
        self._places: dict[Destination, float] = {}
        self._queues: dict[str, float] = {}
        self._guaranteed: dict[str, float] = {}
        queueing, tree = inventory.relation(Queueing), inventory.relation(QueueTree)
        for name, workloads in queueing.workloads.items():
            for workload in workloads:
                gpus = self.replicas(workload) * workload.gpus_per_replica
                held = 0 if queueing.preemptible(workload) else gpus
                for queue in tree.way_up(name) if gpus else ():
                    self._queues[queue.name] = self._queues.get(queue.name, 0.0) + gpus
                    self._guaranteed[queue.name] = self._guaranteed.get(queue.name, 0.0) + held

    def replicas(self, workload: Workload) -> int:
        """The fewest replicas of a workload that runs; 0 for kinds that have no replicas, such as a Job."""
        return max(1, self._scaling.minimum(workload)[0]) if workload.scaled_by_replicas else 0

    def on(self, place: Destination) -> float:
        """GPUs in use by what lands on these pools and no others."""
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = place.gpus(self.replicas)
        return found

    def in_queue(self, name: str, *, guaranteed: bool = False) -> float:
        """GPUs in use in a queue and below it; `guaranteed`: by what KAI may not preempt."""
        return (self._guaranteed if guaranteed else self._queues).get(name, 0.0)
