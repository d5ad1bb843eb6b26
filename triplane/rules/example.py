"""A rule's examples: small inputs that fail or pass, kept beside the rules, shown on its page and run as its tests.

A file is `examples/<id>/{bad,good}.<case>.yaml`. It begins with comments:

    # One or two lines that say what the case shows.
    # expect: NodePool/h100 spec.disruption.consolidationPolicy       (bad: one line for each expected failure)
    # assumes: {cold_start: 8m}                                       (parameters, where the defaults do not do)

The cases named `typical` are the ones a rule's page shows.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from triplane.documents import read_documents
from triplane.inventory import Inventory, resources_of
from triplane.rules.parameters import Parameters

FOLDER = Path(__file__).parent / "examples"

_COMMENT = re.compile(r"#\s?(.*)")


@dataclass(frozen=True)
class Example:
    """One example file."""

    path: Path

    @property
    def rule(self) -> str:
        """The id of its rule."""
        return self.path.parent.name

    @property
    def kind(self) -> Literal["bad", "good"]:
        return "bad" if self.path.name.startswith("bad.") else "good"

    @property
    def case(self) -> str:
        return self.path.name.split(".")[1]

    @cached_property
    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    @cached_property
    def _comments(self) -> list[str]:
        comments: list[str] = []
        for line in self._lines:
            match = _COMMENT.fullmatch(line)
            if match is None:
                break
            comments.append(match[1])
        return comments

    @property
    def shows(self) -> str:
        """What the case shows, in words."""
        return " ".join(line for line in self._comments if not line.startswith(("expect:", "assumes:")))

    @property
    def expected(self) -> frozenset[tuple[str, str]]:
        """(object, path) of every failure the rule must find: ("NodePool/h100", "spec.limits")."""
        lines = [line.removeprefix("expect:").split() for line in self._comments if line.startswith("expect:")]
        return frozenset((words[0], words[1]) for words in lines)

    @property
    def assumed(self) -> str:
        """The parameters it sets, as written; empty: the defaults do."""
        return " ".join(line.removeprefix("assumes:").strip() for line in self._comments if line.startswith("assumes:"))

    @property
    def parameters(self) -> Parameters:
        written: dict[str, Any] = {}
        for line in self._comments:
            if line.startswith("assumes:"):
                written |= next(read_documents(line.removeprefix("assumes:"), str(self.path))).value
        return Parameters.of(written)

    @property
    def manifest(self) -> str:
        """The objects, without the leading comments."""
        return "\n".join(self._lines[len(self._comments) :]).strip() + "\n"

    def inventory(self) -> Inventory:
        documents = enumerate(read_documents(self.path.read_text(), str(self.path)))
        return Inventory(
            r for index, document in documents for r in resources_of(document.value, str(self.path), index)
        )


def examples(rule: str = "*") -> tuple[Example, ...]:
    """The examples of one rule, or of all."""
    return tuple(Example(path) for path in sorted(FOLDER.glob(f"{rule}/*.yaml")))
