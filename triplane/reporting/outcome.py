"""What a check found, with everything a renderer needs to show it: places, excerpts, what was not read."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from urllib.parse import quote

from triplane.documents import Position
from triplane.inventory import Resource
from triplane.inventory.files import STDIN, Sources
from triplane.inventory.resource import NotRead
from triplane.reporting.places import excerpts
from triplane.rules import Finding, Report, Severity


@dataclass(frozen=True)
class Outcome:
    """One check. Renderers take it and nothing else."""

    report: Report
    sources: Sources
    not_read: tuple[NotRead, ...] = ()
    fixed: tuple[Finding, ...] = ()
    excerpt: Callable[[Finding, Position], str | None] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "excerpt", excerpts(self.sources))

    def place(self, finding: Finding) -> Position | None:
        """Where a finding is; None: its source has no text."""
        if finding.place is not None:
            return finding.place
        return self.sources.position(finding.resource, finding.path) if finding.resource else None

    def place_of(self, resource: Resource) -> Position | None:
        """Where an object begins."""
        return self.sources.position(resource, ())

    def file_place(self, finding: Finding) -> Position | None:
        """A place in a file that a repository has: of rendered Helm output, the chart's template."""
        position = self.place(finding)
        if position is None or position.file != STDIN:
            return position
        template = self.sources.template(finding.resource) if finding.resource else None
        return Position(template) if template else None

    @property
    def sorted_findings(self) -> tuple[Finding, ...]:
        """The gravest first: services that show a few only show the first ones."""
        return tuple(sorted(self.report.findings, key=lambda f: (f.kind == "unknown", -f.severity, f.rule.id)))

    @property
    def counts(self) -> dict[str, int]:
        """How many of each, by the names of the JSON summary."""
        return report_counts(self.report) | {"fixed": len(self.fixed), "notRead": len(self.not_read)}


def report_counts(report: Report) -> dict[str, int]:
    """How many objects were judged, and what was found."""
    names = {Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.INFO: "info"}
    return {
        "objects": report.judged,
        **{name: sum(finding.severity is severity for finding in report.failures) for severity, name in names.items()},
        "unknown": len(report.unknowns),
        "suppressed": len(report.suppressed),
        "baselined": len(report.baselined),
        "defects": len(report.defects),
    }


def object_path(resource: Resource) -> str:
    """`karpenter.sh/v1/NodePool/h100`, `apps/v1/Deployment/chat/decode`."""
    return "/".join(filter(None, (resource.api_version, resource.kind_name, resource.namespace, resource.name)))


def relative(file: str) -> str:
    """A file's path from the current folder, with / on every system; as it is where it lies on another drive."""
    path = file
    if PurePath(path).is_absolute():
        try:
            path = os.path.relpath(path)
        except ValueError:  # another drive of Windows
            return path
    if os.sep == "\\":
        path = path.replace("\\", "/")
    return path.removeprefix("./")


def uri(file: str) -> str:
    """The relative path as a URI reference."""
    if file == STDIN:
        return "stdin"
    path = relative(file)
    return PurePath(path).as_uri() if PurePath(path).is_absolute() else quote(path, safe="/")
