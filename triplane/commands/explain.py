"""triplane explain and triplane rules: what a rule demands, and why."""

import click


@click.command()
@click.argument("rule")
def explain(rule: str) -> None:
    """Explain one rule, by id, slug or former name: what it demands, why, the fix, examples."""
    from triplane.commands.check import chosen_rules
    from triplane.reporting.rule_pages import page

    click.echo(page(chosen_rules((rule,))[0]), nl=False)


@click.command()
@click.option("--layer", help="Only one layer: NP, NC, QU, AS, WL, XL, IN, PH.")
def rules(layer: str | None) -> None:
    """List all rules."""
    from triplane.rules import Layer, all_rules

    if layer is not None and layer.upper() not in Layer.__members__:
        raise click.UsageError(f"there is no layer {layer}: write one of {', '.join(Layer.__members__)}")
    for rule in all_rules():
        if layer is None or rule.layer.name == layer.upper():
            click.echo(f"{rule.id}  {rule.severity!s:7}  {rule.profile!s:11}  {rule.title}")
