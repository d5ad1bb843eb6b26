"""Findings as text for people: grouped by object, with the place, the excerpt, the fix and the reason."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from triplane.documents import Position
from triplane.reporting.outcome import Outcome, report_counts
from triplane.rules import Finding, Report, Severity

Place = Callable[[Finding], Position | None]
Excerpt = Callable[[Finding, Position], str | None]
Style = Callable[..., str]


def _plain(text: str, **_: object) -> str:
    return text


def _nowhere(*_: object) -> None:
    """For sources that have no text to point into."""


def text(
    report: Report,
    place: Place = _nowhere,
    excerpt: Excerpt = _nowhere,
    style: Style = _plain,
    summary: str = "",
) -> Iterator[str]:
    """The lines of a report. `style` takes click.style's arguments; leave it out for plain text."""
    told: set[str] = set()
    for heading, findings in _by_object(report.findings):
        yield style(heading, bold=True)
        for finding in findings:
            yield from _finding_lines(finding, place(finding), excerpt, style)
            if finding.rule.id not in told:
                told.add(finding.rule.id)
                why = f"{first_sentence(finding.rule.why)} (triplane explain {finding.rule.id})"
                yield f"    {style('why', dim=True)}  {why}"
        yield ""
    for defect in report.defects:
        yield style(
            f"{defect.rule.id} failed on {defect.resource or 'the whole input'}: {defect.error}", fg="red", bold=True
        )
        yield "  This is a fault of the rule, not of the object. The other rules went on."
        yield ""
    yield summary or counted(report_counts(report))


def outcome_text(outcome: Outcome, style: Style = _plain, *, excerpt: bool = True) -> Iterator[str]:
    """The lines for the outcome of a check, with what was not read."""
    shown: Excerpt = outcome.excerpt if excerpt else _nowhere
    yield from text(outcome.report, outcome.place, shown, style, counted(outcome.counts))
    for missed in outcome.not_read:
        yield f"{style('not read', fg='magenta')}  {missed}"


def counted(counts: Mapping[str, int]) -> str:
    """One line: `3 errors, 1 warning and 2 unknown in 14 objects; 1 suppressed, 4 in the baseline`."""
    words = [
        _count(counts.get(key, 0), name)
        for key, name in (("errors", "error"), ("warnings", "warning"), ("info", "note"))
        if counts.get(key)
    ]
    if counts.get("unknown"):
        words.append(f"{counts['unknown']} unknown")
    said = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:]))) or "nothing found"
    others = [
        f"{counts[key]} {name}"
        for key, name in (
            ("suppressed", "suppressed"),
            ("baselined", "in the baseline"),
            ("fixed", "fixed"),
            ("notRead", "not read"),
        )
        if counts.get(key)
    ]
    return f"{said} in {_count(counts.get('objects', 0), 'object')}" + (f"; {', '.join(others)}" if others else "")


def first_sentence(why: str) -> str:
    """The first sentence of a rule's why, on one line."""
    text = " ".join(why.partition("\n\n")[0].split())
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


NAMES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
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
    word = "unknown" if finding.kind == "unknown" else NAMES[finding.severity]
    colour = "magenta" if finding.kind == "unknown" else _COLOURS[finding.severity]
    where = f"{position}  " if position else ""
    yield f"  {where}{style(f'{word} {finding.rule.id}', fg=colour, bold=True)}  {finding.message}"
    if position and (shown := excerpt(finding, position)):
        yield from (f"    {line}" for line in shown.split("\n"))
    for other in finding.verdict.related:
        yield f"    see also {other}"
    if finding.note:
        yield f"    note  {finding.note}"
    if finding.kind == "fail":
        yield f"    {style('fix', fg='green')}  {finding.fix}"
