"""triplane pack: where the CrossGuard pack is installed."""

from importlib.util import find_spec
from pathlib import Path

import click


@click.command()
def pack() -> None:
    """Print the folder of the policy pack, for pulumi up --policy-pack "$(triplane pack)"."""
    # Found, not imported: the pack needs Pulumi's policy SDK, its folder does not.
    spec = find_spec("triplane.policies")
    if spec is None or spec.origin is None:
        raise click.ClickException("the policy pack is not installed: pip install 'triplane[pulumi]'")
    click.echo(Path(spec.origin).parent)
