"""The judgements. One rule set for every door: the command line, the CrossGuard pack, the preview.

report = judge(inventory)
for finding in report.findings:
    print(finding.rule.id, finding.resource, finding.message, finding.fix)
"""

import importlib
from functools import cache

from triplane.rules.config import Config, Level
from triplane.rules.engine import Defect, Finding, Report, Suppressed, judge
from triplane.rules.numbers import ALSO_KNOWN_AS
from triplane.rules.parameters import Parameters
from triplane.rules.rule import Layer, Profile, Rule, Severity, registered

# One file a subject; each registers its rules when imported.
MODULES = (
    "nodepool_consolidation",
    "nodepool_budgets",
    "nodepool_lifetime",
    "nodepool_limits",
    "nodepool_isolation",
    "nodepool_capacity",
    "nodepool_requirements",
    "nodepool_versions",
    "reservations",
    "nodeclass_machines",
    "nodeclass_network",
    "infra_karpenter",
    "infra_cluster",
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
    "workload_lifecycle",
    "workload_resources",
    "workload_devices",
    "workload_traffic",
    "hygiene_admission",
    "crosslayer_capacity",
    "crosslayer_protection",
    "crosslayer_types",
    "hygiene",
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by number."""
    for module in MODULES:
        importlib.import_module(f"triplane.rules.{module}")
    return tuple(sorted(registered().values(), key=lambda rule: (rule.layer, rule.id)))


@cache
def rule_ids() -> dict[str, str]:
    """Every name of a rule with its id: ids, slugs, and what it was called before."""
    known = {rule.id: rule.id for rule in (*all_rules(), *door_rules())}
    former = {name: id for name, id in ALSO_KNOWN_AS.items() if id in known}
    return known | {rule.slug: rule.id for rule in (*all_rules(), *door_rules())} | former


def door_rules() -> tuple[Rule, ...]:
    """What a door reports beside the judgements, under numbers of its own: explained and configured like any rule."""
    return importlib.import_module("triplane.rules.doors").DOOR_RULES  # type: ignore[no-any-return]


def rule_named(name: str) -> Rule | None:
    """The rule of that id (in any case), slug, or former name."""
    id = rule_ids().get(name, rule_ids().get(name.upper()))
    return next((rule for rule in (*all_rules(), *door_rules()) if rule.id == id), None)


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
    "Suppressed",
    "all_rules",
    "door_rules",
    "judge",
    "rule_ids",
    "rule_named",
]
