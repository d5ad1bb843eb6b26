"""What stands at the API server's door: admission policies and webhooks, and what they match and write.

Kinds: ValidatingAdmissionPolicy, MutatingAdmissionPolicy and the webhook configurations of Kubernetes, Kyverno's
policies of both generations, Gatekeeper's mutators.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from triplane.documents import Path
from triplane.inventory.fields import at, known, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.resource import Resource

_GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = f"ValidatingAdmissionPolicy.{_GROUP}", f"ValidatingAdmissionPolicyBinding.{_GROUP}"
MUTATING_POLICY = f"MutatingAdmissionPolicy.{_GROUP}"
_WEBHOOKS = (f"ValidatingWebhookConfiguration.{_GROUP}", f"MutatingWebhookConfiguration.{_GROUP}")
# Kyverno's CEL policies take Kubernetes' match constraints.
_KYVERNO_CEL = ("ValidatingPolicy.policies.kyverno.io", "MutatingPolicy.policies.kyverno.io")
_KYVERNO = ("ClusterPolicy.kyverno.io", "Policy.kyverno.io")
_MUTATORS = ("Assign.mutations.gatekeeper.sh", "ModifySet.mutations.gatekeeper.sh")


@dataclass(frozen=True, slots=True)
class Match:
    """One resource a policy matches, as it writes it: group "" for core, "*" for any; `pods/binding`."""

    path: Path
    group: str
    resource: str
    operations: frozenset[str]

    def creates(self) -> bool:
        return not self.operations.isdisjoint(("*", "CREATE"))


class Admission:
    """An object that judges or changes other objects as they are written."""

    KINDS: ClassVar[tuple[str, ...]] = (POLICY, MUTATING_POLICY, *_WEBHOOKS, *_KYVERNO_CEL, *_KYVERNO, *_MUTATORS)

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.spec = mapping(resource.data.get("spec"))

    @property
    def matches(self) -> Iterator[Match]:
        """The resources it matches, exclusions aside. Those of Kyverno's first generation by kind: `Pod/binding`."""
        data, kind = self.resource.data, self.resource.kind
        if kind in _WEBHOOKS:
            for index, webhook in enumerate(sequence(data.get("webhooks"))):
                yield from _rules(webhook, ("rules",), ("webhooks", index))
        elif kind in _KYVERNO:
            for index, rule in enumerate(sequence(self.spec.get("rules"))):
                yield from _kinds(at(rule, "match"), ("spec", "rules", index, "match"))
        else:
            yield from _rules(data, ("spec", "matchConstraints", "resourceRules"), ())

    @property
    def writes(self) -> Iterator[tuple[Path, str]]:
        """What it writes into other objects: where that stands, and its text."""
        kind = self.resource.kind
        if kind in _KYVERNO:
            for index, rule in enumerate(sequence(self.spec.get("rules"))):
                if at(rule, "mutate") is not None:
                    yield ("spec", "rules", index, "mutate"), flat(at(rule, "mutate"))
        elif kind in (MUTATING_POLICY, _KYVERNO_CEL[1]):
            yield ("spec", "mutations"), flat(known(self.spec.get("mutations")))
        elif kind in _MUTATORS:
            yield ("spec", "location"), flat(dict(self.spec))


def _rules(data: Any, below: Path, above: Path) -> Iterator[Match]:
    for index, rule in enumerate(sequence(at(data, *below))):
        operations = frozenset(text(known(operation)) or "" for operation in sequence(at(rule, "operations")))
        for group in sequence(at(rule, "apiGroups")):
            for place, resource in enumerate(sequence(at(rule, "resources"))):
                path: Path = (*above, *below, index, "resources", place)
                yield Match(path, text(group) or "", text(resource) or "", operations)


def _kinds(match: Any, path: Path) -> Iterator[Match]:
    blocks: list[tuple[Path, Any]] = [(("resources",), at(match, "resources"))]
    for key in ("any", "all"):
        blocks += [((key, i, "resources"), at(block, "resources")) for i, block in enumerate(sequence(at(match, key)))]
    for place, resources in blocks:
        written = frozenset(text(operation) or "" for operation in sequence(at(resources, "operations")))
        for index, kind in enumerate(sequence(at(resources, "kinds"))):
            yield Match((*path, *place, "kinds", index), "*", text(kind) or "", written or frozenset("*"))


def flat(value: Any) -> str:
    """All keys and words inside a value as one text, for looking up what it mentions."""
    if isinstance(value, dict):
        return " ".join(f"{key} {flat(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(flat(item) for item in value)
    return str(known(value))


class Bindings:
    """Bindings of validating admission policies, by policy. Use `inventory.relation(Bindings)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._by_policy: dict[str, list[Resource]] = {}
        for binding in inventory.of_kind(BINDING):
            if name := text(at(binding.data, "spec", "policyName")):
                self._by_policy.setdefault(name, []).append(binding)

    def of(self, policy: Resource) -> list[Resource]:
        return self._by_policy.get(policy.name, [])
