"""triplane preview: what a stack would deploy, found by running its program offline."""

import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from triplane.commands.check import coloured

if TYPE_CHECKING:
    from triplane.documents import Position
    from triplane.inventory import Resource
    from triplane.manifests.fleet import FleetManifests
    from triplane.program import Recording
    from triplane.program.written import Written
    from triplane.rules import Finding, Report
    from triplane.rules.parameters import Parameters
    from triplane.settings import StackSettings
    from triplane.settings.models import ReplicaRange
    from triplane.settings.source import Source

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("stack")
@click.option("--write", type=FOLDER, metavar="DIR", help="Write the Kubernetes objects into this folder, a file each.")
@click.option(
    "--diff", "against", type=FOLDER, metavar="DIR", help="Show what changes against a folder written before."
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a setting first: a.b.c=value, as YAML.")
@click.pass_context
def preview(
    context: click.Context, stack: str, write: Path | None, against: Path | None, sets: tuple[str, ...]
) -> None:
    """Show what a stack would deploy. Contacts no cluster, no account, and needs no Pulumi CLI.

    Runs the program with the settings of stacks/Pulumi.STACK.yaml and shows its resources, what the rules find in
    them, what pods of other owners must carry, and GPUs and dollars an hour.
    """
    from triplane.manifests.fleet import fleet_manifests
    from triplane.manifests.patching import extra_manifests
    from triplane.program import run_program
    from triplane.program.projects import find_project, stack_config
    from triplane.program.written import read_written, write_manifests
    from triplane.settings.overrides import Override, override
    from triplane.settings.source import read_stack
    from triplane.settings.validation import validate

    project = find_project()
    source = override(read_stack(stack, project.root), [Override.parse(text) for text in sets])
    settings = validate(source)
    fleet = fleet_manifests(settings, extra_manifests(settings.manifests, project.program))
    config, secrets = stack_config(project, source)
    before = read_written(against) if against else None
    recording = run_program(project.program, project=project.name, stack=stack, config=config, secrets=secrets)
    report = _judged(recording, stack, settings)

    _show_resources(stack, settings, fleet, recording)
    _show_contracts(settings)
    _show_findings(report, source, settings, fleet)
    _show_notices(settings, fleet)
    _show_costs(settings)
    if before:
        _show_differences(before, recording, settings, str(against))
    if write:
        left_out = write_manifests(write, recording, stack, settings.platform.karpenter.version)
        count = sum(1 for _ in recording.manifests()) - len(left_out)
        click.echo(f"\nWrote {count} Kubernetes objects to {write}, a file each.")
        for reason in left_out:
            click.echo(f"not written: {reason}", err=True)
    if report.defects:
        context.exit(3)
    if any(finding.severity.name == "ERROR" for finding in report.failures):
        context.exit(1)


def _section(title: str) -> None:
    click.echo()
    click.echo(click.style(title, bold=True) if coloured() else title)


def _wrapped(text: str, following: str) -> None:
    click.echo(textwrap.fill(text, 80, subsequent_indent=following, break_on_hyphens=False, break_long_words=False))


def _judged(recording: "Recording", stack: str, settings: "StackSettings") -> "Report":
    from triplane.inventory import Inventory
    from triplane.program.inventoried import inventory_resources
    from triplane.rules import Config, Profile, judge

    config = Config(profile=Profile[settings.policy.profile.upper()], parameters=_facts(stack, settings))
    stand_ins = _stand_ins(settings)
    report = judge(Inventory([*inventory_resources(recording), *stand_ins]), config)
    own = tuple(finding for finding in report.findings if finding.resource not in stand_ins)
    return replace(report, findings=own, judged=report.judged - len(stand_ins))


def _stand_ins(settings: "StackSettings") -> "list[Resource]":
    """The workloads that somebody else declares, as their pod contract says they must be. Without them nothing would
    join a scaler to its queue and its pool, and a patch could ask for more than either gives."""
    from triplane.inventory import Origin, Resource
    from triplane.manifests.identity import ManifestError
    from triplane.manifests.workloads import scale_target, workload_manifests
    from triplane.settings.models import WorkloadSettings

    found = []
    for name, model in settings.models.items():
        for role_name, role in model.roles.items():
            if role.workload is not None:
                continue
            target = scale_target(name, model, role_name)
            declared = role.model_copy(update={"workload": WorkloadSettings(image="elsewhere:v0"), "target": None})
            stand_in = model.model_copy(update={"roles": {**model.roles, role_name: declared}})
            try:
                objects = workload_manifests(
                    name,
                    stand_in,
                    role_name,
                    pool_name=role.pool,
                    pool=settings.pools[role.pool],
                    platform=settings.platform,
                    cluster=settings.cluster,
                )
            except ManifestError:
                continue  # an engine that this stack could not start itself: the owner of the workload can
            for manifest in objects:
                if manifest["kind"] == target["kind"]:
                    manifest["metadata"]["name"] = target["name"]
                    found.append(Resource(manifest, Origin()))
    return found


def _facts(stack: str, settings: "StackSettings") -> "Parameters":
    """What the stack file says and its objects do not. One cold start stands for all models: the shortest, since each
    model's own windows are derived from its own."""
    from triplane.manifests.labels import role_name
    from triplane.manifests.workloads import scale_target
    from triplane.rules.parameters import Duration, Parameters

    platform, models = settings.platform, settings.models
    roles = [(name, model, role) for name, model in models.items() for role in model.roles]
    elsewhere = [scale_target(*each) for each in roles if each[1].roles[each[2]].workload is None]
    fixed = [role_name(name, role) for name, model, role in roles if _is_fixed(model.roles[role].replicas)]
    engines = {model.engine.version for model in models.values() if model.engine.name == "vllm"}
    facts = Parameters(
        karpenter=platform.karpenter.version,
        keda=platform.keda.version,
        kai=platform.kai.version,
        kubernetes=settings.cluster.kubernetes,
        vllm_version=engines.pop() if len(engines) == 1 else "",
        karpenter_gates=tuple(sorted(platform.karpenter.gates)),
        pinned=tuple(f"*/{name}" for name in fixed),
        external=tuple(f"{target['kind']}/{target['name']}" for target in elsewhere),
        environment=stack,
    )
    if not models:
        return facts
    return replace(facts, cold_start=Duration(min(model.cold_start.total_seconds() for model in models.values())))


def _is_fixed(replicas: "ReplicaRange") -> bool:
    return replicas.min == replicas.max


def _show_resources(stack: str, settings: "StackSettings", fleet: "FleetManifests", recording: "Recording") -> None:
    from triplane.manifests.identity import identify
    from triplane.reporting.resource_tree import branches, plain_lines, rich_tree

    cluster = settings.cluster
    where = f"cluster {cluster.name}" + (f" ({cluster.region})" if cluster.region else "")
    title = f"Stack {stack}: {len(recording.resources)} resources on {where}, context {cluster.context}"
    trees = branches(
        recording,
        patched={identity.same_object for identity in fleet.patched},
        added={identify(manifest).same_object for manifest in fleet.extra},
    )
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(rich_tree(title, trees), highlight=False)
    else:
        click.echo(title)
        for line in plain_lines(trees, depth=1):
            click.echo(line)


def _show_contracts(settings: "StackSettings") -> None:
    from triplane.manifests.workloads import pod_contract
    from triplane.reporting.contracts import contract_lines

    contracts = [
        pod_contract(
            model_name,
            model,
            role_name,
            pool_name=role.pool,
            pool=settings.pools[role.pool],
            platform=settings.platform,
            cluster=settings.cluster,
        )
        for model_name, model in settings.models.items()
        for role_name, role in model.roles.items()
        if role.workload is None
    ]
    if contracts:
        _section("What pods must carry that somebody else declares")
        for line in contract_lines(contracts):
            _wrapped(line, "# ") if line.startswith("# ") else click.echo(line)


def _show_findings(report: "Report", source: "Source", settings: "StackSettings", fleet: "FleetManifests") -> None:
    from triplane.manifests.identity import identify
    from triplane.reporting.declared_places import declared_places
    from triplane.reporting.findings import text

    places = declared_places(settings, fleet, source)

    def place(finding: "Finding") -> "Position | None":
        resource = finding.resource
        if resource is None or not resource.name:
            return None
        try:
            return places.get(identify(resource.data).same_object)
        except ValueError:
            return None

    _section("Findings")
    style: Callable[..., str] = click.style if coloured() else lambda text, **_: text
    for line in text(report, place, style=style):
        click.echo(line)


def _show_notices(settings: "StackSettings", fleet: "FleetManifests") -> None:
    from triplane.reporting.notices import notices

    if lines := list(notices(settings, fleet)):
        _section("Notices")
        for line in lines:
            _wrapped(f"- {line}", "  ")


def _show_costs(settings: "StackSettings") -> None:
    from triplane.reporting.pool_costs import pool_costs

    _section("GPUs and US dollars an hour")
    for line in pool_costs(settings):
        click.echo(line)


def _show_differences(before: "Written", recording: "Recording", settings: "StackSettings", folder: str) -> None:
    from triplane.manifests.changes import changes, replaced_pools
    from triplane.reporting.differences import differences

    after = [manifest for _, manifest in recording.manifests()]
    releases = (before.karpenter, settings.platform.karpenter.version)
    _section(f"Changes against {folder}")
    styled = coloured()
    for line, colour in differences(changes(before.objects, after), replaced_pools(before.objects, after, releases)):
        click.echo(click.style(line, fg=colour) if colour and styled else line)
