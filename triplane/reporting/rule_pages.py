"""A rule's page, written from the rule itself: for `triplane explain` and for docs/rules."""

from triplane.rules import Rule
from triplane.rules.example import examples


def page(rule: Rule) -> str:
    """The page in Markdown."""
    parts = [
        f"# {rule.id} {rule.slug}",
        f"{rule.title}.",
        f"*{str(rule.severity).capitalize()}, profile {rule.profile}, {rule.layer.title}; judged from "
        + ("one object" if rule.scope == "object" else "all objects together")
        + ("; can be fixed with `triplane check --fix`" if rule.autofix else "")
        + ".*",
        "## Why",
        rule.why,
        "## Fix",
        rule.fix,
    ]
    shown = examples(rule.id)
    for heading, kind in (("## Fails", "bad"), ("## Passes", "good")):
        if example := next((example for example in shown if example.kind == kind and example.case == "typical"), None):
            parts += [heading, example.shows, f"```yaml\n{example.manifest}```"]
    if rule.parameters:
        parts += ["## Parameters", "\n".join(f"- `{name}`" for name in rule.parameters)]
    if rule.versions:
        parts += ["## Versions", rule.versions]
    parts += ["## Sources", "\n".join(f"- <{source}>" for source in rule.sources)]
    return "\n\n".join(parts) + "\n"
