"""triplane check: judge any Kubernetes YAML or JSON, a Pulumi program, a Pulumi state, or a live cluster."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from triplane.inventory import Resource
    from triplane.inventory.files import Sources
    from triplane.reporting.outcome import Outcome
    from triplane.rules import Config, Report, Rule

FORMATS = ("text", "json", "sarif", "junit", "github", "gitlab")
FILE = click.Path(dir_okay=False)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH|-]...")
@click.option(
    "--stack", metavar="NAME", help="Judge a stack of the Pulumi project here (or of --program), run offline."
)
@click.option("--program", metavar="DIR", type=click.Path(file_okay=False), help="Judge a Pulumi project in Python.")
@click.option("--state", metavar="FILE", type=FILE, help="Judge what is deployed: the output of pulumi stack export.")
@click.option("--live", is_flag=True, help="Judge a cluster; reads only, and no Secrets.")
@click.option("--kubeconfig", metavar="FILE", help="With --live; left out: $KUBECONFIG, then ~/.kube/config.")
@click.option("--context", "context_name", metavar="NAME", help="With --live; left out: the current context.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--config", "config_path", metavar="FILE", type=FILE, help="Profile, levels, parameters, suppressions.")
@click.option(
    "--profile", type=click.Choice(["core", "recommended", "all"]), help="Which rules run.  [default: recommended]"
)
@click.option("--rule", "only", multiple=True, metavar="ID", help="Run only these rules (id or slug); may be repeated.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    show_default=True,
    help="The least severity that makes the command exit with 1.",
)
@click.option("--strict-unknown", is_flag=True, help="Exit with 4 when something could not be judged.")
@click.option("--baseline", metavar="FILE", type=FILE, help="Report only what is not in this baseline.")
@click.option(
    "--write-baseline", metavar="FILE", type=FILE, help="Write everything found as a baseline, and exit with 0."
)
@click.option("--prune-baseline", is_flag=True, help="Take out of --baseline what is not found any more.")
@click.option("--fix", is_flag=True, help="Edit the files in place where exactly one value is safe; keeps comments.")
@click.option("--diff", is_flag=True, help="Show what --fix does; alone it changes nothing.")
@click.option("--explain", "explained", is_flag=True, help="Show the page of each rule that found something.")
@click.option("--jobs", type=click.IntRange(0), default=0, help="Processes to read with.  [default: by size]")
@click.pass_context
def check(
    context: click.Context,
    paths: tuple[str, ...],
    stack: str | None,
    program: str | None,
    state: str | None,
    live: bool,
    kubeconfig: str | None,
    context_name: str | None,
    form: str,
    config_path: str | None,
    profile: str | None,
    only: tuple[str, ...],
    fail_on: str,
    strict_unknown: bool,
    baseline: str | None,
    write_baseline: str | None,
    prune_baseline: bool,
    fix: bool,
    diff: bool,
    explained: bool,
    jobs: int,
) -> None:
    """Judge manifests: files, folders, or - for standard input (helm template . | triplane check -).

    Without PATH the current folder is judged. A PATH may also be the output of pulumi stack export or of pulumi
    preview --json --show-sames: so a project in TypeScript or Go is judged; one in Python needs only --program DIR.
    Nothing is contacted but the cluster of --live, and nothing is changed but files under --fix.

    Exit codes: 0 fine, 1 findings, 2 something wrong with the input or not read, 3 a fault of a rule, 4 unknown
    verdicts under --strict-unknown.
    """
    _consistent(form, diff, explained, bool(baseline), prune_baseline, live, kubeconfig or context_name)
    # What is read lives until the process ends: looking for garbage among it takes a tenth of the time.
    gc.set_threshold(200_000, 50, 50)
    rules = chosen_rules(only) or None
    config = _configured(config_path, profile, rules)

    def gather() -> "Sources":
        return _gathered(paths, stack, program, state, (kubeconfig, context_name) if live else None, jobs)

    sources = gather()
    report = _judged(sources, config, rules)
    known = _known(baseline)
    fixed: tuple[Any, ...] = ()
    if fix or diff:
        made = _fixes(known.applied(report, str(baseline)) if known else report, sources, diff, fix)
        if fix and made.after:
            fixed = tuple(made.fixed)
            sources = gather()
            report = _judged(sources, config, rules)
    if write_baseline:
        _write_baseline(report, write_baseline)
    if known and prune_baseline:
        known = known.pruned(report)
        known.write(str(baseline))
    if known:
        report = known.applied(report, str(baseline))
    _show(report, sources, form, fixed, explained)
    context.exit(0 if write_baseline and not sources.not_read else exit_code(report, sources, fail_on, strict_unknown))


def exit_code(report: "Report", sources: "Sources", fail_on: str, strict_unknown: bool) -> int:
    """3 a rule failed, 1 findings, 2 something unread (findings outrank it), 4 unknown if asked for, 0 fine."""
    from triplane.rules import Severity

    threshold = None if fail_on == "never" else Severity[fail_on.upper()]
    if report.defects:
        return 3
    if threshold is not None and any(f.stops and f.severity >= threshold for f in report.findings):
        return 1
    if sources.not_read:
        return 2
    return 4 if strict_unknown and report.unknowns else 0


def _consistent(
    form: str, diff: bool, explained: bool, baseline: bool, prune: bool, live: bool, of_a_cluster: str | None
) -> None:
    if form != "text" and (diff or explained):
        raise click.UsageError(f"--{'diff' if diff else 'explain'} is for people: leave out --format {form}")
    if prune and not baseline:
        raise click.UsageError("--prune-baseline needs --baseline FILE")
    if of_a_cluster and not live:
        raise click.UsageError("--kubeconfig and --context go with --live")


def _configured(path: str | None, profile: str | None, rules: "list[Rule] | None") -> "Config":
    from triplane.rules import Config, Profile

    config = Config()
    if path is not None:
        from triplane.rules.config_file import read_config

        config = read_config(path)
    if profile is not None:
        config = replace(config, profile=Profile[profile.upper()])
    for rule in rules or ():
        config = config.asked_for(rule)
    return config


def _gathered(
    paths: tuple[str, ...],
    stack: str | None,
    program: str | None,
    state: str | None,
    cluster: tuple[str | None, str | None] | None,
    jobs: int,
) -> "Sources":
    """Everything that the options name, as one input."""
    from triplane.documents.reading import MAX_FILE_BYTES
    from triplane.inventory.files import Sources

    sources = Sources()
    named = list(paths)
    if not named and (stack, program, state, cluster) == (None, None, None, None):
        named.append(".")
    with progress("read", "files") as told:
        for path in named:
            if path == "-":
                sources.read_stream(sys.stdin.buffer.read(MAX_FILE_BYTES + 1))
            else:
                sources.read_paths([path], jobs, told)
        if state is not None:
            before = sources.pulumi_documents, len(sources.not_read)
            sources.read_paths([state])
            if (sources.pulumi_documents, len(sources.not_read)) == before:
                raise click.UsageError(f"{state} is not what pulumi stack export writes")
    if stack is not None or program is not None:
        from triplane.program.inventoried import program_resources

        resources = program_resources(program or ".", stack)
        if stack is not None:
            _place_in_stack_file(resources, program or ".", stack)
        sources.resources += resources
        sources.files += 1
    if cluster is not None:
        read, _ = live_sources(*cluster)
        sources.resources += read.resources
        sources.not_read += read.not_read
    return sources


def _place_in_stack_file(resources: "list[Resource]", folder: str, stack: str) -> None:
    """What a stack file of ours declares is found there; a program of another kind keeps its own lines."""
    from triplane.manifests.fleet import fleet_manifests
    from triplane.manifests.identity import identify
    from triplane.manifests.patching import extra_manifests
    from triplane.program.projects import find_project
    from triplane.reporting.declared_places import declared_places
    from triplane.settings.problems import SettingsError
    from triplane.settings.source import read_stack
    from triplane.settings.validation import validate

    project = find_project(folder)
    source = read_stack(stack, project.root)
    try:
        settings = validate(source)
    except SettingsError:  # another program's configuration
        return
    fleet = fleet_manifests(settings, extra_manifests(settings.manifests, project.program))
    places = declared_places(settings, fleet, source)
    for resource in resources:
        if resource.data.get("kind") and resource.name and not resource.api_version.endswith("/pulumi"):
            place = places.get(identify(resource.data).same_object)
            if place is not None:
                file = os.path.relpath(project.root / place.file)
                resource.origin = replace(resource.origin, file=file, line=place.line, column=place.column)


def live_sources(kubeconfig: str | None, context: str | None) -> "tuple[Sources, str]":
    """The objects of a cluster and its context, once a person has been told which cluster it is."""
    from triplane.inventory.live import connect, read_cluster
    from triplane.rules import all_rules

    cluster = connect(kubeconfig, context)
    kinds = {kind for rule in all_rules() for kind in rule.kinds}
    click.echo(f"reading {cluster}", err=True)
    with progress("read", "objects") as told:
        return read_cluster(cluster, kinds, told), cluster.context


def _judged(sources: "Sources", config: "Config", rules: "list[Rule] | None") -> "Report":
    from triplane.inventory import Inventory
    from triplane.rules import judge

    return judge(Inventory(sources.resources, sources.comments), config, rules)


def _known(path: str | None) -> Any:
    if path is None:
        return None
    from triplane.rules.baseline import Baseline

    return Baseline.read(path)


def _write_baseline(report: "Report", path: str) -> None:
    from triplane.rules.baseline import Baseline

    made = Baseline.of(report.findings)
    made.write(path)
    click.echo(f"wrote {made.counts.total()} findings to {path}", err=True)


def _fixes(report: "Report", sources: "Sources", diff: bool, write: bool) -> Any:
    from triplane.reporting.fixing import fixes

    made = fixes(report.failures, sources)
    if diff:
        for line in made.diff():
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            click.echo(click.style(line, fg=colour) if colour and coloured() else line)
    if write:
        made.write()
        click.echo(f"fixed {len(made.fixed)} findings in {len(made.after)} files", err=True)
    for finding, reason in made.refused:
        click.echo(f"not fixed: {finding.rule.id} of {finding.resource}: {reason}", err=True)
    return made


def _show(report: "Report", sources: "Sources", form: str, fixed: tuple[Any, ...], explained: bool) -> None:
    from triplane.reporting.outcome import Outcome

    outcome = Outcome(report, sources, tuple(sources.not_read), fixed)
    for line in _rendered(outcome, sources, form):
        click.echo(line)
    if explained:
        from triplane.reporting.rule_pages import page

        for rule in sorted({finding.rule for finding in report.findings}, key=lambda rule: rule.id):
            click.echo(f"\n{page(rule)}", nl=False)
    if form == "github":
        _write_job_summary(outcome)


def _rendered(outcome: "Outcome", sources: "Sources", form: str) -> Iterator[str]:
    match form:
        case "json":
            from triplane.reporting.json_report import json_report

            yield json_report(outcome).rstrip("\n")
        case "sarif":
            from triplane.reporting.sarif import sarif

            yield sarif(outcome).rstrip("\n")
        case "junit":
            from triplane.reporting.junit import junit

            yield junit(outcome, tuple(sources.resources)).rstrip("\n")
        case "github":
            from triplane.reporting.github import annotations

            yield from annotations(outcome)
        case "gitlab":
            from triplane.reporting.gitlab import code_quality

            yield code_quality(outcome).rstrip("\n")
        case _:
            from triplane.reporting.findings import outcome_text

            yield from outcome_text(outcome, click.style if coloured() else _plain)


def _write_job_summary(outcome: "Outcome") -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        from triplane.reporting.github import job_summary

        with Path(path).open("a", encoding="utf-8") as file:
            file.write(job_summary(outcome))


def chosen_rules(names: tuple[str, ...]) -> "list[Rule]":
    """The rules of these ids or slugs. Ends the command where one is unknown."""
    from triplane.catalog import nearest_names
    from triplane.rules import rule_ids, rule_named

    chosen = []
    for name in names:
        rule = rule_named(name)
        if rule is None:
            near = nearest_names(name, tuple(rule_ids()))
            raise click.UsageError(
                f"there is no rule {name}" + (f": did you mean {' or '.join(near)}?" if near else "")
            )
        chosen.append(rule)
    return chosen


@contextmanager
def progress(verb: str, things: str) -> Iterator[Callable[[int], None] | None]:
    """Hears counts and shows them on standard error, only on a terminal and only when it takes long."""
    if not sys.stderr.isatty():
        yield None
        return
    start = last = time.monotonic()
    shown = False

    def told(count: int) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - start > 1 and now - last > 0.1:
            last, shown = now, True
            click.echo(f"\r{verb} {count:,} {things}", nl=False, err=True)

    yield told
    if shown:
        click.echo("\r\x1b[K", nl=False, err=True)


def coloured() -> bool:
    """Colour only on a terminal, and never where NO_COLOR is set (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _plain(text: str, **_: object) -> str:
    return text
