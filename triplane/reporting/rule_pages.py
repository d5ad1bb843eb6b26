"""A rule's page, written from the rule itself: for `triplane explain` and for docs/rules."""

import dataclasses
import inspect
from collections.abc import Iterator
from functools import cache

from triplane.rules import Config, Level, Rule, all_rules, door_rules
from triplane.rules.example import Example, examples
from triplane.rules.numbers import ALSO_KNOWN_AS, RETIRED
from triplane.rules.parameters import Duration, Parameters


def page(rule: Rule) -> str:
    """The page in Markdown."""
    parts = [
        f"# {rule.id} {rule.slug}",
        f"{rule.title}.",
        f"*{_about(rule)}.*",
        "## Why",
        rule.why,
        *_shown("## Fails", rule, "bad"),
        *_shown("## Passes", rule, "good"),
        "## Fix",
        rule.fix,
    ]
    if rule.parameters:
        parts += ["## Parameters", "\n".join(_parameters(rule))]
    if rule.versions:
        parts += ["## Versions", rule.versions]
    parts += ["## Where it is judged", "\n".join(_doors(rule))]
    if not rule.about_suppressions and rule not in door_rules():
        parts += ["## Accept a finding", _accepting(rule)]
    parts += ["## Sources", "\n".join(f"- <{source}>" for source in rule.sources)]
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The table of all rules."""
    lines = [
        "# Rules",
        "",
        "Written from the rules by `make docs`. Severity: an error stops a deployment, the rest is said.",
        "Profile: `core` needs no configuration; `recommended` holds core, `all` holds everything.",
        "Scope: what one object says, or what several say together.",
    ]
    rules = sorted((*all_rules(), *door_rules()), key=lambda rule: (rule.layer, rule.id))
    layer = None
    for rule in rules:
        if rule.layer is not layer:
            layer = rule.layer
            lines += [
                "",
                f"## {layer.title.capitalize()}",
                "",
                "| rule | it demands | severity | profile | scope | fix |",
            ]
            lines += ["|---|---|---|---|---|---|"]
        fix = "`--fix`" if rule.autofix else ""
        title = rule.title.replace("|", "\\|")
        lines.append(
            f"| [{rule.id}]({rule.id}.md) | {title} | {rule.severity} | {rule.profile} | {rule.scope} | {fix} |"
        )
    lines += ["", "## Former names", "", "| name | now |", "|---|---|"]
    lines += [f"| {name} | [{id}]({id}.md) |" for name, id in sorted(ALSO_KNOWN_AS.items()) if _known(id)]
    lines += [f"| {name} | never a rule: {why} |" for name, why in sorted(RETIRED.items())]
    return "\n".join(lines) + "\n"


def _known(id: str) -> bool:
    return any(rule.id == id for rule in all_rules())


def _about(rule: Rule) -> str:
    scope = "one object" if rule.scope == "object" else "all objects together"
    fixed = "; `triplane check --fix` can do it" if rule.autofix else ""
    return f"{str(rule.severity).capitalize()}, profile {rule.profile}, {rule.layer.title}; judged from {scope}{fixed}"


def _shown(heading: str, rule: Rule, kind: str) -> list[str]:
    example = next((e for e in examples(rule.id) if e.kind == kind and e.case == "typical"), None)
    if example is None:
        return []
    return [heading, _said(example), f"```yaml\n{example.manifest}```"]


def _said(example: Example) -> str:
    assumed = example.assumed
    return example.shows + (f"\n\nWith the parameters `{assumed}`." if assumed else "")


def _parameters(rule: Rule) -> Iterator[str]:
    yield "| name | default | meaning |"
    yield "|---|---|---|"
    for name in rule.parameters:
        default, meaning = parameters()[name]
        yield f"| `{name}` | {default} | {meaning} |"


@cache
def parameters() -> dict[str, tuple[str, str]]:
    """Each parameter's default and meaning, as a table shows them."""
    texts = _field_docstrings()
    return {
        field.name: (_written(getattr(Parameters(), field.name)), texts[field.name])
        for field in dataclasses.fields(Parameters)
    }


def _written(value: object) -> str:
    if isinstance(value, Duration):
        return f"`{value}`"
    if value is None or value in ("", (), {}):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`"


def _field_docstrings() -> dict[str, str]:
    """The text under each field of Parameters: Python keeps none at run time."""
    import ast

    (defined,) = ast.parse(inspect.getsource(Parameters)).body
    assert isinstance(defined, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, following in zip(defined.body, defined.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            texts[field.target.id] = " ".join(str(following.value.value).split()).replace("|", "\\|")
    return texts


def _doors(rule: Rule) -> Iterator[str]:
    if rule in door_rules():
        yield "- said by the door itself, as the text above tells"
        return
    level = Config(profile=rule.profile).level(rule)
    said = "stops the deployment" if level is Level.MANDATORY else "is advisory"
    kind = "a resource" if rule.scope == "object" else "a stack"
    yield f"- `triplane check`: profile {rule.profile} and above"
    yield "- `triplane preview`: with the profile that the stack names"
    yield f"- CrossGuard: {kind} policy `{rule.id}`, which {said}"


def _accepting(rule: Rule) -> str:
    return (
        f"In the configuration, with a reason: "
        f'`{{"triplane": {{"suppressions": [{{"rules": ["{rule.id}"], "object": "Kind/name", "reason": "..."}}]}}}}`. '
        f"Where the rule is advisory, also beside the object: the annotation "
        f'`triplane.dev/ignore: "{rule.id} until=2027-01-31 reason=..."`, or the comment '
        f"`# triplane: ignore[{rule.id}] reason=...`."
    )
