"""Judgements on which pods requests are sent to."""

from triplane.inventory.engines import engine_of
from triplane.inventory.fields import at, number, sequence
from triplane.inventory.roles import DECODE, PREFILL
from triplane.inventory.selectors import PodSelector, SelectedPods
from triplane.inventory.workloads import ROLE_LABEL, PodTemplate, Workload
from triplane.rules.rule import Context, Profile, Severity, rule
from triplane.rules.verdicts import Verdicts, fail

POOLS = "https://llm-d.ai/docs/api-reference/inferencepool"


def _role(workload: Workload, template: PodTemplate) -> str:
    """prefill or decode, by label, else by the name of workload or role; empty: neither, or both."""
    said = template.labels.get(ROLE_LABEL, workload.labels.get(ROLE_LABEL))
    words = {str(said)} if said is not None else {*workload.resource.name.split("-"), template.role}
    found = words & {PREFILL, DECODE}
    return found.pop() if len(found) == 1 else ""


@rule(
    "WL516",
    "prefill-and-decode-pods-are-told-apart",
    on=PodSelector,
    scope="stack",
    severity=Severity.ERROR,
    profile=Profile.CORE,
    fix="Label the pods llm-d.ai/role: prefill or decode, or select the roles apart.",
    sources=("https://llm-d.ai/docs/guides/pd-disaggregation", POOLS),
)
def prefill_and_decode_pods_are_told_apart(selector: PodSelector, context: Context) -> Verdicts:
    """Prefill and decode pods behind one selector must carry their role as a label.

    The endpoint picker tells them by llm-d.ai/role. Without the label it sends whole requests to pods that only
    prefill, and averages the queues of both, so that neither role is scaled by its own load. Roles are told by name
    where the label is missing. Found on the pods that lack it.
    """
    if not selector.selector:
        return
    selected = context.inventory.relation(SelectedPods).of(selector.resource.namespace, selector.selector)
    roles = [(workload, template, role) for workload, template in selected if (role := _role(workload, template))]
    if len({role for _, _, role in roles}) < 2:
        return
    for workload, template, role in roles:
        if ROLE_LABEL not in template.labels:
            yield fail(
                (*template.metadata_path, "labels", ROLE_LABEL),
                None,
                f"{selector.resource} mixes these {role} pods with the other role's",
                on=workload.resource,
                related=(selector.resource,),
            )


def _listens(template: PodTemplate, wanted: frozenset[int]) -> bool | None:
    """Whether the pods listen on one of the ports, by declaration or option; None: they say nothing of ports."""
    ports = {number(at(entry, "containerPort")) for c in template.containers for entry in sequence(c.data.get("ports"))}
    ports |= {float(value) for c in template.containers if (value := c.option("--port") or "").isdecimal()}
    if ports:
        return not ports.isdisjoint(wanted)
    return None if any(engine_of(container) for container in template.containers) else False


@rule(
    "WL522",
    "inference-pool-selects-only-what-serves",
    on=PodSelector,
    scope="stack",
    severity=Severity.WARNING,
    profile=Profile.RECOMMENDED,
    fix="Select by a label that only the serving pods carry.",
    sources=(POOLS, "https://github.com/llm-d/llm-d/pull/2212"),
)
def inference_pool_selects_only_what_serves(selector: PodSelector, context: Context) -> Verdicts:
    """An InferencePool should select no pods that do not listen on its ports.

    Every selected pod is an endpoint. A pod that shares a label and does not serve, such as one that holds GPUs or
    loads a cache, gets its share of the requests and refuses them. Judged where other selected pods declare the port:
    a declaration is optional, so an engine that declares none is taken to listen.
    """
    if not (selector.pool and selector.selector and selector.ports):
        return
    selected = context.inventory.relation(SelectedPods).of(selector.resource.namespace, selector.selector)
    answers = [(workload, _listens(template, selector.ports)) for workload, template in selected]
    if not any(listens for _, listens in answers):
        return
    strangers = dict.fromkeys(workload for workload, listens in answers if listens is False)
    if strangers:
        names = ", ".join(str(workload.resource) for workload in list(strangers)[:5])
        yield fail(
            selector.path,
            "wider than what serves",
            f"requests also go to {names}, which does not listen on port {min(selector.ports)}",
            related=tuple(workload.resource for workload in strangers),
        )
