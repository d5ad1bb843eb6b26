"""Paths inside a document: a tuple of keys and indexes, written as people write them."""

import re

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")


def render_path(path: Path) -> str:
    """`("spec", "limits", "nvidia.com/gpu")` -> `spec.limits["nvidia.com/gpu"]`; `("a", 0)` -> `a[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text
