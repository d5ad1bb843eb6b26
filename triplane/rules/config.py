"""Which rules run, how hard, and with which parameters: one file an environment, the same for CrossGuard and the CLI.

The file has the shape Pulumi gives a policy pack's configuration, so that `--policy-pack-config` takes it as it is:

    {"triplane": {"profile": "recommended", "parameters": {"cold_start": "8m"}},
     "NP102": "advisory", "AS416": {"enforcementLevel": "mandatory"}}
"""

from dataclasses import dataclass, field, replace
from enum import Enum

from triplane.rules.parameters import Parameters
from triplane.rules.rule import Profile, Rule, Severity


class Level(Enum):
    """How hard a rule is enforced, in CrossGuard's words."""

    MANDATORY = "mandatory"
    ADVISORY = "advisory"
    DISABLED = "disabled"


@dataclass(frozen=True, kw_only=True)
class Config:
    """The judge's configuration. The default one needs no file."""

    profile: Profile = Profile.RECOMMENDED
    parameters: Parameters = field(default_factory=Parameters)
    levels: dict[str, Level] = field(default_factory=dict)

    def level(self, rule: Rule) -> Level:
        """A rule's level: as configured, else by its severity if the profile holds it."""
        if (configured := self.levels.get(rule.id)) is not None:
            return configured
        if rule.profile > self.profile:
            return Level.DISABLED
        return Level.MANDATORY if rule.severity is Severity.ERROR else Level.ADVISORY

    def switching_on(self, rule: Rule) -> "Config":
        """The same configuration with one rule on, whatever its profile."""
        if self.level(rule) is not Level.DISABLED:
            return self
        return replace(self, levels={**self.levels, rule.id: Level.ADVISORY})
