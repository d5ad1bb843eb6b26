"""Findings as text for people: grouped by object, with the place, the excerpt, the fix."""

from collections.abc import Callable, Iterable, Iterator

from triplane.documents import Position
from triplane.rules import Finding, Report, Severity

Place = Callable[[Finding], Position | None]
Excerpt = Callable[[Position], str | None]
Style = Callable[..., str]


def _plain(text: str, **_: object) -> str:
    return text


def nowhere(_: object) -> None:
    """For sources that have no text to point into."""


def text(report: Report, place: Place = nowhere, excerpt: Excerpt = nowhere, style: Style = _plain) -> Iterator[str]:
    """The lines of a report. `style` takes click.style's arguments; leave it out for plain text."""
    for heading, findings in _by_object(report.findings):
        yield style(heading, bold=True)
        for finding in findings:
            yield from _finding_lines(finding, place(finding), excerpt, style)
        yield ""
    for defect in report.defects:
        yield style(f"{defect.rule.id} failed on {defect.resource}: {defect.error}", fg="red", bold=True)
        yield "  This is a fault of the rule, not of the object. The other rules went on."
        yield ""
    yield summary(report)


def summary(report: Report) -> str:
    """One line: `3 errors, 1 warning and 2 unknown in 14 objects`."""
    counts = dict.fromkeys(reversed(Severity), 0)
    for finding in report.failures:
        counts[finding.severity] += 1
    words = [_count(number, _NAMES[severity]) for severity, number in counts.items() if number]
    if report.unknowns:
        words.append(f"{len(report.unknowns)} unknown")
    said = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:]))) or "nothing found"
    return f"{said} in {_count(report.judged, 'object')}"


_NAMES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _by_object(findings: Iterable[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    groups: dict[int, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(id(finding.resource), []).append(finding)
    for group in groups.values():
        resource = group[0].resource
        where = f" in {resource.namespace}" if resource and resource.namespace else ""
        yield f"{resource or 'the whole input'}{where}", sorted(group, key=lambda f: (-f.severity, f.rule.id))


def _finding_lines(finding: Finding, position: Position | None, excerpt: Excerpt, style: Style) -> Iterator[str]:
    word = "unknown" if finding.kind == "unknown" else _NAMES[finding.severity]
    colour = "magenta" if finding.kind == "unknown" else _COLOURS[finding.severity]
    where = f"{position}  " if position else ""
    yield f"  {where}{style(f'{word} {finding.rule.id}', fg=colour, bold=True)}  {finding.message}"
    if position and (shown := excerpt(position)):
        yield from (f"    {line}" for line in shown.split("\n"))
    for other in finding.verdict.related:
        yield f"    see also {other}"
    if finding.kind == "fail":
        yield f"    {style('fix', fg='green')}  {finding.fix}"
