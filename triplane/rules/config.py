"""Which rules run, how hard, and with which parameters. `config_file` reads it; the defaults need no file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from triplane.rules.parameters import Parameters
from triplane.rules.rule import Profile, Rule, Severity
from triplane.rules.suppressions import Suppression


class Level(Enum):
    """How hard a rule is enforced, in CrossGuard's words. REMEDIATE changes the object where one value is safe."""

    MANDATORY = "mandatory"
    REMEDIATE = "remediate"
    ADVISORY = "advisory"
    DISABLED = "disabled"

    @property
    def stops(self) -> bool:
        """Whether a finding stops a deployment. What is still wrong after a remediation does."""
        return self in (Level.MANDATORY, Level.REMEDIATE)


OnUnknown = Literal["warn", "fail"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The judge's configuration."""

    profile: Profile = Profile.RECOMMENDED
    include: frozenset[str] = frozenset()
    """Ids of rules that run although the profile does not hold them."""
    parameters: Parameters = field(default_factory=Parameters)
    levels: Mapping[str, Level] = field(default_factory=dict)
    """By id; "all" for every rule that is not named."""
    rule_parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By id: parameters that only this rule sees."""
    on_unknown: OnUnknown = "warn"
    """Whether a rule that cannot tell stops a deployment."""
    rule_on_unknown: Mapping[str, OnUnknown] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()
    annotations_may_ignore: Literal["advisory", "all"] = "advisory"
    """Which rules an annotation or a comment may switch off. Whoever writes the object would else approve himself."""
    longest_suppression_days: int | None = None

    def level(self, rule: Rule) -> Level:
        """A rule's level: off outside the profile, else as configured, else by its severity."""
        if rule.profile > self.profile and rule.id not in self.include:
            return Level.DISABLED
        configured = self.levels.get(rule.id) or self.levels.get("all")
        return configured or default_level(rule)

    def unknown(self, rule: Rule) -> OnUnknown:
        """What follows where the rule cannot tell."""
        return self.rule_on_unknown.get(rule.id, self.on_unknown)

    def parameters_of(self, rule: Rule) -> Parameters:
        """The parameters in force for one rule."""
        own = self.rule_parameters.get(rule.id)
        return replace(self.parameters, **own) if own else self.parameters

    def asked_for(self, rule: Rule) -> "Config":
        """The same configuration with one rule on, whatever its profile: for a door where it was named."""
        if self.level(rule) is not Level.DISABLED:
            return self
        off = self.levels.get(rule.id) is Level.DISABLED or self.levels.get("all") is Level.DISABLED
        levels = {**self.levels, rule.id: default_level(rule)} if off else self.levels
        return replace(self, include=self.include | {rule.id}, levels=levels)


def default_level(rule: Rule) -> Level:
    """Errors stop a deployment, everything else is said."""
    return Level.MANDATORY if rule.severity is Severity.ERROR else Level.ADVISORY
