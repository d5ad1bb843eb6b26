"""The judgements. One rule set for every door: the command line, the CrossGuard pack, the preview.

report = judge(inventory)
for finding in report.findings:
    print(finding.rule.id, finding.resource, finding.message, finding.fix)
"""

import importlib

from triplane.rules.config import Config, Level
from triplane.rules.engine import Defect, Finding, Report, judge
from triplane.rules.numbers import ALSO_KNOWN_AS
from triplane.rules.parameters import Parameters
from triplane.rules.rule import Layer, Profile, Rule, Severity, registered

# One file a subject; each registers its rules when imported.
MODULES = (
    "nodepool_consolidation",
    "nodepool_versions",
    "reservations",
    "queue_capacity",
    "queue_gangs",
    "queue_membership",
    "queue_priorities",
    "queue_shares",
    "queue_sharing",
    "autoscaler_signals",
    "autoscaler_queries",
    "autoscaler_bounds",
    "autoscaler_rates",
    "autoscaler_keda",
    "autoscaler_targets",
    "workload_placement",
    "workload_protection",
    "crosslayer_capacity",
    "crosslayer_protection",
    "crosslayer_types",
)


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by number."""
    for module in MODULES:
        importlib.import_module(f"triplane.rules.{module}")
    return tuple(sorted(registered().values(), key=lambda rule: (rule.layer, rule.id)))


def rule_named(name: str) -> Rule | None:
    """The rule of that id (in any case), slug, or former name."""
    id = ALSO_KNOWN_AS.get(name, ALSO_KNOWN_AS.get(name.upper(), name.upper()))
    return next((rule for rule in all_rules() if id == rule.id or name == rule.slug), None)


__all__ = [
    "Config",
    "Defect",
    "Finding",
    "Layer",
    "Level",
    "Parameters",
    "Profile",
    "Report",
    "Rule",
    "Severity",
    "all_rules",
    "judge",
    "rule_named",
]
