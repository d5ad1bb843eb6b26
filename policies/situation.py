"""What one request of the engine is about, and the configuration in force: shared by all policies of a pack.

The SDK hands each policy its own copy of the resources. They are read once a request here, whatever policy asks first,
so that a stack of 300 resources is one inventory and not one for each policy.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pulumi_policy import PolicyResource, ResourceValidationArgs, StackValidationArgs
from triplane.policies.resources import resource_of

from triplane.inventory import Inventory
from triplane.rules import Config


class Situation:
    """One for each pack. Requests come on several threads, each of which works on one request at a time."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.faults: tuple[str, ...] = ()
        """What is wrong with the configuration that was given. The one before stays in force."""
        self._request = threading.local()

    @contextmanager
    def request(self) -> Iterator[None]:
        """The time of one request."""
        self._request.inventory = None
        try:
            yield
        finally:
            self._request.inventory = None

    def of_resource(self, args: ResourceValidationArgs) -> Inventory:
        """The one resource of a request."""
        found: Inventory | None = getattr(self._request, "inventory", None)
        if found is None:
            ignored = tuple(args.opts.ignore_changes or ()) if args.opts else ()
            found = Inventory([resource_of(args.resource_type, args.props, args.urn, ignored)])
            self._request.inventory = found
        return found

    def of_stack(self, args: StackValidationArgs) -> Inventory:
        """All resources of a request."""
        found: Inventory | None = getattr(self._request, "inventory", None)
        if found is None:
            found = self._request.inventory = Inventory(_resources(args.resources))
        return found


def _resources(resources: Sequence[PolicyResource]) -> Iterator:  # type: ignore[type-arg]
    for one in resources:
        # Components and providers are no objects, and the stack itself is none either.
        if not one.resource_type.startswith("pulumi:"):
            yield resource_of(one.resource_type, one.props, one.urn, one.opts.ignore_changes)
