"""triplane init: a stack file from what exists."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from triplane.commands.check import live_sources

if TYPE_CHECKING:
    from triplane.inventory.files import Sources


@click.command()
@click.option("--from", "paths", multiple=True, metavar="PATH", help="Manifests: files, folders, or -.")
@click.option("--live", is_flag=True, help="What a cluster holds: reads only, and no Secrets.")
@click.option("--kubeconfig", metavar="FILE", help="With --live; left out: $KUBECONFIG, then ~/.kube/config.")
@click.option("--stack", metavar="NAME", help="Write stacks/Pulumi.NAME.yaml; left out: standard output.")
@click.option("--cluster", default="my-cluster", show_default=True, help="Name of the cluster they are from.")
@click.option("--context", "context_name", metavar="NAME", help="Its kubeconfig context.  [default: as --cluster]")
@click.option("--kubernetes", default="1.35", show_default=True, metavar="VERSION", help="Its version.")
@click.pass_context
def init(
    context: click.Context,
    paths: tuple[str, ...],
    live: bool,
    kubeconfig: str | None,
    stack: str | None,
    cluster: str,
    context_name: str | None,
    kubernetes: str,
) -> None:
    """Write a stack file from NodePools, NodeClasses, Queues and scalers that exist.

    kubectl get nodepools,ec2nodeclasses,queues,scaledobjects,deployments -A -o yaml | triplane init --from -

    Whatever the file cannot express is listed on standard error and as comments in the file. Deploying it takes the
    objects over (cluster.adopt), so look at `triplane preview` first.
    """
    from triplane.settings.adopting import adopt

    if not paths and not live:
        raise click.UsageError("say what to start from: --from PATH, --from - for standard input, or --live")
    if kubeconfig and not live:
        raise click.UsageError("--kubeconfig goes with --live")
    sources = _gathered(paths)
    if live:
        read, context_name = live_sources(kubeconfig, context_name)
        sources.resources += read.resources
        sources.not_read += read.not_read
    for missed in sources.not_read:
        click.echo(f"not read: {missed}", err=True)
    adopted = adopt(
        [resource.data for resource in sources.resources],
        cluster=cluster,
        context=context_name or cluster,
        kubernetes=kubernetes,
    )
    for note in adopted.inexpressible:
        click.echo(f"not expressed: {note}", err=True)
    for problem in adopted.problems:
        click.echo(f"to correct: {problem}", err=True)
    if stack is None:
        click.echo(adopted.text, nl=False)
    else:
        click.echo(f"wrote {_written(stack, adopted.text)}", err=True)
    if sources.not_read or adopted.problems:
        context.exit(2)


def _gathered(paths: tuple[str, ...]) -> "Sources":
    from triplane.documents.reading import MAX_FILE_BYTES
    from triplane.inventory.files import Sources

    sources = Sources()
    for path in paths:
        if path == "-":
            sources.read_stream(sys.stdin.buffer.read(MAX_FILE_BYTES + 1))
        else:
            sources.read_paths([path])
    return sources


def _written(stack: str, text: str) -> Path:
    """Writes the stack's file, which must not exist yet."""
    from triplane.settings.source import stack_file

    path = stack_file(stack)
    path.parent.mkdir(exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{path} exists already: give another --stack, or remove it first") from None
    return path
