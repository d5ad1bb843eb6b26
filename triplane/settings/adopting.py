"""A stack file from Kubernetes objects that exist, and a list of what it could not express.

Objects are plain mappings, as a cluster or YAML gives them. What is written declares the same pools, queues and roles,
with every unsafe setting replaced by its purpose's safe one; each such change is listed. Nothing is guessed silently.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from triplane.documents.scalars import PLAIN, Dialect, resolve_scalar
from triplane.settings.adoption import pools, queues, roles
from triplane.settings.adoption.objects import Inexpressible, Object, of_kind, title
from triplane.settings.problems import SettingsError
from triplane.settings.validation import from_config

_HEADER = "# yaml-language-server: $schema=../docs/stack.schema.json\n#\n# Written from objects that exist.\n"


@dataclass(frozen=True)
class Adopted:
    """A stack file for what exists."""

    text: str
    """The file, with what it could not express as comments on top."""
    inexpressible: tuple[Inexpressible, ...]
    """What the objects say and the file does not, and what it says in their place."""
    problems: tuple[str, ...]
    """What must be corrected before the stack loads, as SettingsError would say it."""


def adopt(objects: Iterable[Object], *, cluster: str, context: str, kubernetes: str) -> Adopted:
    """The stack of these objects: NodePools with their NodeClasses, Queues, ScaledObjects and HPAs with their targets.

    `kubernetes` is the version of the control plane. Objects of other kinds are left alone.
    """
    found = list(objects)
    notes: list[Inexpressible] = []
    values: dict[str, Any] = {
        "cluster": {
            "name": cluster,
            "context": context,
            "cloud": "existing",
            "kubernetes": kubernetes,
            "adopt": True,
        },
        "pools": pools.adopt_pools(found, notes),
    }
    for item in (*of_kind(found, "Topology", "kai.scheduler"), *of_kind(found, "SchedulingShard", "kai.scheduler")):
        key = "topology" if item["kind"] == "Topology" else "shard"
        notes.append(Inexpressible(title(item), "", f"is declared by {key}: of the pools it is for. Set it there"))
    tree = queues.adopt_queues(of_kind(found, "Queue", "scheduling.run.ai"), notes)
    models = roles.adopt_roles(found, set(values["pools"]), notes)
    values.update({key: part for key, part in (("queues", tree), ("models", models)) if part})
    if any(pool.get("nodes", {}).get("static") for pool in values["pools"].values()):
        values["platform"] = {"karpenter": {"version": "1.14.1", "gates": ["StaticCapacity"]}}
    problems = tuple(_problems(values))
    return Adopted(_text(values, notes, problems), tuple(notes), problems)


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    try:
        from_config(values, "written")
    except SettingsError as error:
        yield from (str(problem).removeprefix("written  ") for problem in error.problems)


def _text(values: Mapping[str, Any], notes: Iterable[Inexpressible], problems: Iterable[str]) -> str:
    comments = [f"# - {note}" for note in notes]
    mistakes = [f"# - {problem}" for problem in problems]
    head = _HEADER
    if comments:
        head += "# What they say and this file does not:\n" + "\n".join(comments) + "\n"
    if mistakes:
        head += "# To correct before it loads:\n" + "\n".join(mistakes) + "\n"
    body = yaml.dump({"config": dict(values)}, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return head + body


class _Dumper(yaml.SafeDumper):
    """Quotes whatever the engine would not read back as the same text, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        plain = resolve_scalar(text, PLAIN, Dialect.PULUMI) == text
    except ValueError:
        plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_text)
