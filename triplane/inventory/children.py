"""What operators make of an object of theirs: the children a person does not write and should not scale."""

from triplane.inventory import kinds
from triplane.inventory.fields import at, mapping, sequence, text
from triplane.inventory.inventory import Inventory
from triplane.inventory.resource import Resource
from triplane.inventory.scaling import DEFAULT_NAMESPACE

_DEPLOYMENT, _LWS = "Deployment.apps", "LeaderWorkerSet.leaderworkerset.x-k8s.io"


class Children:
    """What operators of this input make, by the names they give. Use `inventory.relation(Children)`."""

    def __init__(self, inventory: Inventory) -> None:
        self._owners: dict[tuple[str, str, str], Resource] = {}
        for owner in inventory.of_kind(kinds.LLM_INFERENCE_SERVICE):
            # kserve pkg/controller/v1alpha2/llmisvc: kmeta.ChildName(name, "-kserve..."); "-mn" where it has workers.
            for suffix in ("kserve", "kserve-prefill"):
                self._note(owner, _DEPLOYMENT, f"{owner.name}-{suffix}")
            for suffix in ("kserve-mn", "kserve-mn-prefill"):
                self._note(owner, _LWS, f"{owner.name}-{suffix}")
        for owner in inventory.of_kind(kinds.INFERENCE_SERVICE):
            for part in ("predictor", "transformer", "explainer"):
                self._note(owner, _DEPLOYMENT, f"{owner.name}-{part}")
        for owner in inventory.of_kind("DynamoGraphDeployment.nvidia.com"):
            services = [*mapping(at(owner.data, "spec", "services"))]
            services += [text(at(c, "name")) or "" for c in sequence(at(owner.data, "spec", "components"))]
            for service in services:
                for kind in (_DEPLOYMENT, _LWS, "DynamoComponentDeployment.nvidia.com"):
                    self._note(owner, kind, f"{owner.name}-{str(service).lower()}")

    def _note(self, owner: Resource, kind: str, name: str) -> None:
        self._owners[(kind, owner.namespace or DEFAULT_NAMESPACE, name)] = owner

    def owner(self, kind: str, namespace: str, name: str) -> Resource | None:
        """The object whose operator makes one of that kind and name."""
        return self._owners.get((kind, namespace or DEFAULT_NAMESPACE, name))
