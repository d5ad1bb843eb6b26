"""The real API server accepts what any valid stack generates: by its schemas, by its CEL rules, strictly.

A dry run does all of that and stores nothing.
"""

from fleets import valid_stacks
from hypothesis import HealthCheck, given, settings

from tools.engine.client import Client
from triplane.manifests.fleet import fleet_manifests
from triplane.settings import StackSettings


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stack=valid_stacks())
def test_every_manifest_of_any_valid_stack_is_accepted(api: Client, stack: StackSettings) -> None:
    objects = fleet_manifests(stack).objects
    assert len(objects) >= 2 * len(stack.pools)
    for manifest in objects:
        api.create(manifest, dry_run=True)
