"""Everything under docs/ that is written from the code: `python -m triplane.reporting.generated_docs`.

The pages of the rules, their index, and the schemas of the configuration and of the JSON report. With `--check` nothing
is written and the exit code is 1 where a file is stale.
"""

import json
import sys
from pathlib import Path

from triplane.reporting.json_report import json_schema
from triplane.reporting.rule_pages import index, page
from triplane.rules import all_rules, door_rules
from triplane.rules.config_file import config_schema

DOCS = Path("docs")


def generated() -> dict[str, str]:
    """The text of each file, by its path below docs/."""
    pages = {f"rules/{rule.id}.md": page(rule) for rule in (*all_rules(), *door_rules())}
    return {
        **pages,
        "rules/README.md": index(),
        "config.schema.json": json.dumps(config_schema(), indent=2) + "\n",
        "findings.schema.json": json.dumps(json_schema(), indent=2) + "\n",
    }


def stale(docs: Path) -> list[str]:
    """What is missing, differs, or is of no rule any more."""
    wanted = generated()
    there = {f"rules/{path.name}" for path in (docs / "rules").glob("*.md")}
    differs = {name for name, text in wanted.items() if not _same(docs / name, text)}
    return sorted(differs | (there - wanted.keys()))


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def write(docs: Path) -> list[str]:
    """Writes what is stale. Returns the names."""
    wanted, changed = generated(), stale(docs)
    for name in changed:
        path = docs / name
        if name not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(wanted[name], encoding="utf-8", newline="\n")
        unfinished.replace(path)
    return changed


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        names = stale(DOCS)
        for name in names:
            print(f"stale: {DOCS / name}: run make docs", file=sys.stderr)
        return 1 if names else 0
    for name in write(DOCS):
        print(f"wrote {DOCS / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
