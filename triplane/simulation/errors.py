"""What stands for a mistake of the input."""


class SimulationError(ValueError):
    """A question that cannot be simulated as it is asked: says where and why."""
