"""Reading the catalogue's data files: each once, when first asked for, and only as text with a source and a date."""

import re
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

# The C parser is eight times as fast; a PyYAML built without libyaml still reads the same.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load(name: str) -> dict[str, Any]:
    """The data file `<name>.yaml`. Raises ValueError when it names no source or date: nothing here may be unsourced."""
    text = files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.load(text, Loader=_LOADER)
    missing = [key for key in ("source", "date") if not data.get(key)]
    if missing:
        raise ValueError(f"catalogue file {name}.yaml states no {' and no '.join(missing)}")
    return data


class UnknownName(ValueError):
    """A name the catalogue does not have, or has on purpose refused.

    `str()` is a whole sentence. `nearest` holds up to three spellings that exist; `reason` says why a known name is
    refused.
    """

    def __init__(self, kind: str, name: str, nearest: tuple[str, ...] = (), reason: str | None = None) -> None:
        self.kind, self.name, self.nearest, self.reason = kind, name, nearest, reason
        if reason:
            sentence = f"{kind} {name!r} is not supported: {reason}"
        elif nearest:
            sentence = f"unknown {kind} {name!r}: did you mean {' or '.join(nearest)}?"
        else:
            sentence = f"unknown {kind} {name!r}"
        super().__init__(sentence)


def nearest_names(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Up to three of `known` that resemble `name`, best first, without regard to case."""
    from difflib import get_close_matches  # needed only for an error message

    by_lower = {candidate.lower(): candidate for candidate in known}
    return tuple(by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5))


def release(version: str) -> tuple[int, ...]:
    """`"v0.16.8"`, `"1.14"`, `"0.12.0rc1"` -> (0, 16, 8), (1, 14, 0), (0, 12, 0), which compare. Raises ValueError."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None:
        raise ValueError(f"{version!r} is no release: write it as 1.14.1 or 1.14")
    return tuple(int(part or 0) for part in match.groups())
