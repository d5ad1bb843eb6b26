"""The real API server accepts what any valid stack generates: by its schemas, by its CEL rules, strictly.

A dry run does all of that and stores nothing.
"""

from typing import Any

from fleets import stacks
from hypothesis import HealthCheck, given, settings

from tools.engine.client import Client
from triplane.manifests.fleet import fleet_manifests
from triplane.settings.stack import StackSettings


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(config=stacks())
def test_every_manifest_of_any_valid_stack_is_accepted(api: Client, config: dict[str, Any]) -> None:
    fleet = fleet_manifests(StackSettings.model_validate(config))
    assert len(fleet.objects) >= 2 * len(config["pools"])
    for manifest in fleet.objects:
        api.create(manifest, dry_run=True)
