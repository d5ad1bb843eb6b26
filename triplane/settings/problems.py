"""What is wrong with a stack file, in words that say what to type next."""

from collections.abc import Iterable
from dataclasses import dataclass

from triplane.documents import Path, Position, render_path


@dataclass(frozen=True)
class Problem:
    """One mistake: where it stands and what to do about it."""

    path: Path
    """Keys and indexes from `config:` down; empty where the file as a whole is meant."""
    position: Position
    message: str
    """Whole sentences."""

    def __str__(self) -> str:
        where = render_path(self.path)
        return f"{self.position}  {where}: {self.message}" if where else f"{self.position}  {self.message}"


class SettingsError(Exception):
    """A stack that cannot be used. Holds every mistake, in the order of the file; `str()` has one line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.position.file, p.position.line, p.position.column)))
        super().__init__("\n".join(str(problem) for problem in self.problems))
