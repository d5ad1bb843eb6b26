"""triplane check: judge any Kubernetes YAML or JSON."""

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from triplane.documents import Position
    from triplane.rules import Finding, Rule


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH|-]...")
@click.option("--profile", type=click.Choice(["core", "recommended", "all"]), default="recommended", show_default=True)
@click.option("--rule", "only", multiple=True, metavar="ID", help="Run only these rules (id or slug); may be repeated.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    show_default=True,
    help="The least severity that makes the command exit with 1.",
)
@click.option("--strict-unknown", is_flag=True, help="Exit with 4 when something could not be judged.")
@click.pass_context
def check(
    context: click.Context,
    paths: tuple[str, ...],
    profile: str,
    only: tuple[str, ...],
    fail_on: str,
    strict_unknown: bool,
) -> None:
    """Judge manifests: files, folders, or - for standard input (helm template . | triplane check -).

    Without PATH the current folder is judged. Nothing is changed and nothing is contacted.
    """
    from triplane.inventory import Inventory
    from triplane.inventory.files import Sources
    from triplane.reporting.findings import text
    from triplane.reporting.places import excerpts
    from triplane.rules import Config, Profile, Severity, judge

    sources = Sources()
    for path in paths or (".",):
        if path == "-":
            sources.read_text(sys.stdin.read())
        else:
            sources.read_paths([path])
    report = judge(Inventory(sources.resources), Config(profile=Profile[profile.upper()]), chosen_rules(only) or None)

    styled = click.style if coloured() else _plain

    def place(finding: "Finding") -> "Position | None":
        return sources.position(finding.resource, finding.path) if finding.resource else None

    for line in text(report, place, excerpts(sources), styled):
        click.echo(line)
    for missed in sources.not_read:
        click.echo(f"not read: {missed}", err=True)

    threshold = None if fail_on == "never" else Severity[fail_on.upper()]
    if report.defects:
        context.exit(3)
    if threshold is not None and any(finding.severity >= threshold for finding in report.failures):
        context.exit(1)
    if sources.not_read and not report.failures:
        context.exit(2)
    if strict_unknown and report.unknowns:
        context.exit(4)


def chosen_rules(names: tuple[str, ...]) -> "list[Rule]":
    """The rules of these ids or slugs. Ends the command where one is unknown."""
    from triplane.catalog import nearest_names
    from triplane.rules import all_rules, rule_named

    chosen = []
    for name in names:
        rule = rule_named(name)
        if rule is None:
            near = nearest_names(name, tuple(r.id for r in all_rules()) + tuple(r.slug for r in all_rules()))
            raise click.UsageError(
                f"there is no rule {name}" + (f": did you mean {' or '.join(near)}?" if near else "")
            )
        chosen.append(rule)
    return chosen


def coloured() -> bool:
    """Colour only on a terminal, and never where NO_COLOR is set (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _plain(text: str, **_: object) -> str:
    return text
