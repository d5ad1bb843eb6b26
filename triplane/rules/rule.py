"""A rule is one thing: identity, why, fix, parameters and judgement. Every door (CLI, CrossGuard, preview) uses it."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, TypeVar

from triplane.inventory import Inventory
from triplane.rules.parameters import Parameters
from triplane.rules.suppressions import Ledger
from triplane.rules.verdicts import Verdicts


class Severity(IntEnum):
    """How bad a finding is. Errors stop a deployment; warnings and information are said."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


class Profile(IntEnum):
    """Which rules run: each profile holds the ones before it. `core` needs no configuration and stops outages."""

    CORE = 1
    RECOMMENDED = 2
    ALL = 3

    def __str__(self) -> str:
        return self.name.lower()


class Layer(IntEnum):
    """The layer a rule belongs to; the first letters of its number."""

    NP = 1
    NC = 2
    QU = 3
    AS = 4
    WL = 5
    XL = 6
    IN = 7
    PH = 8

    @property
    def title(self) -> str:
        return _LAYER_TITLES[self]


_LAYER_TITLES = {
    Layer.NP: "node pools",
    Layer.NC: "node classes and reservations",
    Layer.QU: "queues, gangs, priorities",
    Layer.AS: "autoscalers",
    Layer.WL: "workloads",
    Layer.XL: "across layers",
    Layer.IN: "cloud infrastructure",
    Layer.PH: "policy hygiene",
}


@dataclass(frozen=True, slots=True)
class Context:
    """What a judgement may look at besides the object: all other objects, and the parameters in force for its rule.

    An `object` rule gets an inventory of whatever the door could see, possibly of its own object alone: it must not
    use it.
    """

    inventory: Inventory
    parameters: Parameters
    ledger: Ledger = field(default_factory=Ledger)
    """The suppressions of the run, for the rules about suppressions."""


Judge = Callable[[Any, Context], Verdicts]
J = TypeVar("J", bound=Callable[..., Verdicts])


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One judgement and everything said about it. Built by `@rule`, which takes title and why from the docstring."""

    id: str
    slug: str
    severity: Severity
    profile: Profile
    scope: Literal["object", "stack"]
    on: type
    title: str
    why: str
    fix: str
    sources: tuple[str, ...]
    parameters: tuple[str, ...]
    autofix: bool
    versions: str
    judge: Judge = field(repr=False)
    about_suppressions: bool = False
    """Whether it judges the run's suppressions: after all others, and nothing suppresses it."""

    @property
    def layer(self) -> Layer:
        return Layer[self.id[:2]]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds it judges, as kubectl writes them; empty: every kind, or the input as a whole."""
        return getattr(self.on, "KINDS", ())

    @property
    def page(self) -> str:
        """Its page in the repository."""
        return f"docs/rules/{self.id}.md"


_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    slug: str,
    *,
    on: type,
    severity: Severity,
    profile: Profile,
    fix: str,
    sources: tuple[str, ...],
    scope: Literal["object", "stack"] = "object",
    parameters: tuple[str, ...] = (),
    autofix: bool = False,
    versions: str = "",
    about_suppressions: bool = False,
) -> Callable[[J], J]:
    """Makes a generator function a rule. Its docstring is the rule's text: first line the title, the rest the why.

    id          "NP101": the layer and a number that is never used again.
    slug        states the safe state: "gpu-pool-consolidates-only-empty-nodes".
    on          what it judges: a view (NodePool, Scaler, Workload, Queue ...), Resource for any object, Inventory for
                all of them at once.
    scope       "object" judges from the object alone; "stack" may use `context.inventory`.
    parameters  names of the fields of Parameters it reads.
    autofix     whether its verdicts carry edits: exactly one value is safe.
    versions    where it depends on a controller's version, in words for the page.
    """

    def register(judge: J) -> J:
        if id in _RULES:
            raise ValueError(f"rule {id} is defined twice")
        title, _, why = inspect.cleandoc(judge.__doc__ or "").partition("\n")
        strange = set(parameters) - Parameters.names()
        if strange:
            raise ValueError(f"rule {id} reads parameters that do not exist: {', '.join(sorted(strange))}")
        _RULES[id] = Rule(
            id, slug, severity, profile, scope, on, title.strip().rstrip("."), why.strip(), fix, sources, parameters,
            autofix, versions, judge, about_suppressions,
        )  # fmt: skip
        return judge

    return register


def registered() -> dict[str, Rule]:
    """The rules of the modules imported so far, by id. `triplane.rules.all_rules` imports them all first."""
    return _RULES
