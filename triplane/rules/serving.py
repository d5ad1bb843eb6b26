"""What several judgements ask about workloads that serve."""

from triplane.inventory.scaling import Scaling
from triplane.inventory.workloads import Workload
from triplane.rules.parameters import Parameters
from triplane.rules.rule import Context


def is_a_serving_role(workload: Workload, parameters: Parameters) -> bool:
    """Whether it serves under an SLO by its own words: listed, or a role of a model on GPUs that is no batch work."""
    if Parameters.lists(parameters.slo, workload.resource):
        return True
    batch = workload.has_label(parameters.batch_label)
    return bool(workload.serving_role and workload.uses_gpu and not batch)


def is_under_slo(workload: Workload, context: Context) -> bool:
    """Whether it serves under an SLO: the parameter lists it, or it is a scaled role of a model."""
    if Parameters.lists(context.parameters.slo, workload.resource):
        return True
    scaled = context.inventory.relation(Scaling).scalers_of(workload.resource)
    return bool(scaled) and is_a_serving_role(workload, context.parameters)
