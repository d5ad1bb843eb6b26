"""What the pods of roles must carry that somebody else declares, as short YAML."""

from collections.abc import Iterator, Sequence
from typing import Any

from triplane.documents.writing import yaml_text
from triplane.manifests.contract import PROBE_PERIOD_SECONDS, PodContract
from triplane.manifests.labels import QUEUE

FOLDED_AFTER = 64
"""Columns after which a line is folded at its next space: hardly any line is then wider than 80."""


def contract_lines(contracts: Sequence[PodContract]) -> Iterator[str]:
    """One block a role, in the order given; then the notes, each once, with the roles that it is for."""
    yield from yaml_text(
        {contract.name: _short(contract) for contract in contracts}, sort_keys=False, compact=True, width=FOLDED_AFTER
    ).splitlines()
    notes: dict[str, list[str]] = {}
    for contract in contracts:
        for note in contract.notes:
            notes.setdefault(note, []).append(contract.name)
    for note, roles in notes.items():
        yield f"# {', '.join(roles)}: {note}" if len(roles) < len(contracts) else f"# {note}"


def _short(contract: PodContract) -> dict[str, Any]:
    """Each value once, under the words for where it belongs."""
    pods = contract.opt_in.pods
    owner, labels = dict(contract.owner_labels), dict(contract.labels)
    shared = owner == labels
    parts = {
        "owner": f"{contract.owner_kind} in namespace {contract.namespace}; gang: {contract.opt_in.gang}",
        # Where the queue goes is plain where both carry the label.
        "queue": "" if QUEUE in owner and QUEUE in labels else contract.opt_in.queue,
        f"labels (owner, {pods})" if shared else "labels of the owner": owner,
        "annotations of the owner": dict(contract.owner_annotations),
        f"labels of {pods}": {} if shared else labels,
        f"annotations of {pods}": dict(contract.annotations),
        f"spec of {pods}": contract.pod_spec(),
        "resources, requests and limits alike": dict(contract.devices),
        "startupProbe": {"periodSeconds": PROBE_PERIOD_SECONDS, "failureThreshold": contract.startup_failures},
    }
    return {place: value for place, value in parts.items() if value}
