"""From values to a stack, or to every mistake in them at once."""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from triplane.documents import Path
from triplane.settings.checks import check_all
from triplane.settings.checks.signals import device_metrics
from triplane.settings.declared import declared, salvage
from triplane.settings.problems import Problem, SettingsError
from triplane.settings.source import Source, locate, read_stack
from triplane.settings.stack import StackSettings
from triplane.settings.wording import Finding, encrypted_paths, findings_of


def load(stack: str, project_dir: FilePath | str | None = None) -> StackSettings:
    """See StackSettings.load."""
    return validate(read_stack(stack, project_dir))


def from_config(values: Mapping[str, Any], source: FilePath | str) -> StackSettings:
    """See StackSettings.from_config."""
    return validate(locate(values, source))


def validate(source: Source) -> StackSettings:
    """The stack that `source` declares. Raises SettingsError with every mistake."""
    findings = [
        Finding(
            path, "is encrypted. A setting is no secret and must be readable without a passphrase: write it plainly"
        )
        for path in encrypted_paths(source.values)
    ]
    findings += device_metrics(source.values)
    reported = [finding.path for finding in findings]
    stack: StackSettings | None = None
    try:
        stack = StackSettings.model_validate(source.values, by_alias=True, by_name=False)
        parts = declared(stack, source)
    except ValidationError as error:
        found = list(findings_of(error, source.values, StackSettings))
        misnamed = [finding.path for finding in found if finding.is_wrong_name]
        findings += [
            finding
            for finding in found
            if not _stands_below(finding.path, reported)
            and (finding.is_wrong_name or not _stands_below(finding.path, misnamed))
        ]
        parts = salvage(source)
    findings += check_all(parts)
    if findings or stack is None:
        raise SettingsError(_problems(findings, source))
    return stack


def _stands_below(path: Path, reported: list[Path]) -> bool:
    return any(path[: len(other)] == other for other in reported)


def _problems(findings: list[Finding], source: Source) -> Iterator[Problem]:
    for finding in dict.fromkeys(findings):
        yield Problem(finding.path, source.position(finding.path, key=finding.at_key), finding.message)
