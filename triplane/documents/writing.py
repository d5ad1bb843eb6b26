"""Plain values as YAML text: the same values give the same text, and either dialect reads it back as it was."""

from typing import Any

import yaml

from triplane.documents.scalars import PLAIN, Dialect, resolve_scalar

UNFOLDED = 2**20
"""A width that no line reaches."""

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """PyYAML's emitter, with quotes wherever one of the two dialects would read something else than the text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, text: str) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


_Dumper.add_representer(str, _Dumper.text)


def _style(text: str) -> str | None:
    if "\n" in text:
        return "|" if _fits_a_block(text) else '"'
    # PyYAML quotes what it would misread itself. `y` and `1e3` it reads as text, Kubernetes does not.
    return None if all(_reads_as_text(text, dialect) for dialect in Dialect) else '"'


def _fits_a_block(text: str) -> bool:
    """Whether a block (`|`) shows the text as it is, without an indentation mark and without escapes."""
    lines = text.split("\n")
    return (
        text.isascii()
        and text.replace("\n", "").isprintable()
        and lines[0][:1] not in ("", " ")
        and text.rstrip() == text.rstrip("\n")
    )


def _reads_as_text(text: str, dialect: Dialect) -> bool:
    try:
        return resolve_scalar(text, PLAIN, dialect) == text
    except ValueError:
        return False


def yaml_text(value: Any, *, sort_keys: bool = True, compact: bool = False, width: int = UNFOLDED) -> str:
    """`value` as one YAML document: dict, list, str, int, float, bool, None. `compact` puts
    the innermost lists and mappings on one line each. Lines longer than `width` are folded.

    Raises yaml.representer.RepresenterError for anything else. A key `<<` is the one thing that cannot be written: the
    engine merges it even in quotes.
    """
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=sort_keys,
        default_flow_style=None if compact else False,
        allow_unicode=True,
        width=width,
    )
    return text
