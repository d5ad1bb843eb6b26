"""The configuration file: one an environment, the same for CrossGuard (`--policy-pack-config`) and `check --config`.

    {
      "triplane": {
        "profile": "recommended",
        "parameters": {"cold_start": "8m"},
        "suppressions": [{"rules": ["NP101"], "object": "NodePool/batch-*", "reason": "stateless; ask ml-infra"}]
      },
      "NP102": {"enforcementLevel": "advisory", "min_consolidate_after": "30m"},
      "AS416": "mandatory"
    }

Pulumi's engine decides the shape: a level or an object by a policy's name, in JSON. What concerns all rules stands
under `triplane`, which is a policy of the pack too.
"""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from triplane import catalog
from triplane.documents import Document, Path, Position, decode, read_documents, render_path
from triplane.rules import all_rules, door_rules, rule_ids
from triplane.rules.config import Config, Level, OnUnknown
from triplane.rules.parameters import Parameters
from triplane.rules.rule import Profile, Rule
from triplane.rules.suppressions import Suppression

ENTRY = "triplane"
"""The name under which everything stands that is not of one rule."""
_ALL = "all"
_FOREIGN = frozenset(("environments",))
"""Keys that the engine itself reads."""

_LEVELS = tuple(level.value for level in Level)
_MODEL = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SuppressionEntry(BaseModel):
    """Findings that are accepted: of these rules, on these objects."""

    model_config = _MODEL
    rules: list[str] = Field(min_length=1)
    """Ids or slugs."""
    object: str = ""
    """`Kind/name` or `Kind/namespace/name`; * stands for anything."""
    file: str = ""
    """Files, as the findings name them; * stands for anything."""
    urn: str = ""
    """Pulumi URNs; * stands for anything."""
    reason: str = ""
    """Why, and whom to ask. Without one the entry counts for nothing, and PH801 says so."""
    until: dt.date | None = None
    """The last day it holds."""


class Settings(BaseModel):
    """What concerns all rules."""

    model_config = _MODEL
    profile: Literal["core", "recommended", "all"] = "recommended"
    """core: what breaks production, with nothing to configure; recommended: more; all: everything."""
    include: list[str] = Field(default_factory=list)
    """Rules to run although the profile does not hold them: ids or slugs."""
    parameters: Parameters = Field(default_factory=Parameters)
    """What no manifest says about the environment."""
    on_unknown: OnUnknown = "warn"
    """What follows where a rule cannot tell, such as for a value that only the update will know."""
    suppressions: list[SuppressionEntry] = Field(default_factory=list)
    """Findings that are accepted."""
    annotations_may_ignore: Literal["advisory", "all"] = "advisory"
    """Which rules the annotation triplane.dev/ignore or a comment may switch off: advisory ones, or all."""
    longest_suppression_days: int | None = Field(default=None, ge=1)
    """A suppression that lasts longer, or for ever, counts for nothing. Left out: any length."""
    enforcementLevel: Literal["advisory", "mandatory", "remediate", "disabled"] = "mandatory"
    """CrossGuard only: what a fault in this configuration does."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """One fault of a configuration."""

    path: Path
    message: str
    position: Position

    def __str__(self) -> str:
        return (
            f"{self.position}  {render_path(self.path)}: {self.message}"
            if self.path
            else f"{self.position}  {self.message}"
        )


class ConfigError(ValueError):
    """A configuration that cannot be used. `str()` has a line for each fault."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def read_config(path: str) -> Config:
    """The configuration of a file. Raises ConfigError with every fault, DocumentError, OSError."""
    text = decode(FilePath(path).read_bytes(), path)
    document = next(read_documents(text, path), None)
    if document is None:
        return Config()
    return config_of(document.value, path, document)


def config_of(written: Any, file: str = "", document: Document | None = None, *, strict_profile: bool = True) -> Config:
    """The configuration of a file's value. Raises ConfigError.

    `strict_profile` refuses a level for a rule that the profile leaves out. The engine sends levels for all rules.
    """
    reader = _Reader(file, document, strict_profile)
    config = reader.config(written)
    if reader.problems:
        raise ConfigError(reader.problems)
    return config


class _Reader:
    """Reads one configuration and gathers its faults."""

    def __init__(self, file: str, document: Document | None, strict_profile: bool) -> None:
        self.file, self.document, self.strict_profile = file, document, strict_profile
        self.problems: list[Problem] = []
        self.rules: dict[str, Rule] = {rule.id: rule for rule in (*all_rules(), *door_rules())}

    def fault(self, path: Path, message: str) -> None:
        position = self.document.position(path, key=True) if self.document else Position(self.file)
        self.problems.append(Problem(path, message, position))

    def config(self, written: Any) -> Config:
        if not isinstance(written, dict):
            self.fault((), "a configuration is an object: a level, or an object, by the name of a rule")
            return Config()
        within: Path = ()
        if written.get("version") == 2 and isinstance(written.get("policies"), dict):
            # The engine's newer form (3.274): the same, one level down.
            written, within = written["policies"], ("policies",)
        settings = self.settings(written.get(ENTRY, {}), (*within, ENTRY))
        levels: dict[str, Level] = {}
        parameters: dict[str, Mapping[str, Any]] = {}
        on_unknown: dict[str, OnUnknown] = {}
        for name, entry in written.items():
            if name == ENTRY or name in _FOREIGN:
                continue
            path = (*within, name)
            id = name if name == _ALL else self.id_of(name, path)
            if id is None:
                continue
            level, own, unknown = self.entry(id, entry, path)
            if level is not None:
                levels[id] = level
            if own:
                parameters[id] = own
            if unknown is not None:
                on_unknown[id] = unknown
        config = Config(
            profile=Profile[settings.profile.upper()],
            include=frozenset(self.ids(settings.include, (*within, ENTRY, "include"))),
            parameters=settings.parameters,
            levels=levels,
            rule_parameters=parameters,
            on_unknown=settings.on_unknown,
            rule_on_unknown=on_unknown,
            suppressions=tuple(self.suppressions(settings.suppressions, (*within, ENTRY, "suppressions"))),
            annotations_may_ignore=settings.annotations_may_ignore,
            longest_suppression_days=settings.longest_suppression_days,
        )
        if self.strict_profile:
            self.outside_the_profile(config, within)
        return config

    def settings(self, written: Any, path: Path) -> Settings:
        if isinstance(written, str):  # only a level, which is CrossGuard's business
            written = {"enforcementLevel": written}
        found = self.validated(_settings_adapter(), written, path)
        return found if isinstance(found, Settings) else Settings()

    def entry(self, id: str, entry: Any, path: Path) -> tuple[Level | None, Mapping[str, Any] | None, OnUnknown | None]:
        if isinstance(entry, str):
            return self.level(entry, path), None, None
        if not isinstance(entry, dict):
            self.fault(path, f"write a level ({', '.join(_LEVELS)}) or an object")
            return None, None, None
        allowed = {"enforcementLevel", "on_unknown", *(self.rules[id].parameters if id in self.rules else ())}
        for key in entry.keys() - allowed:
            self.fault((*path, key), f"{id} has no {key}{_did_you_mean(key, sorted(allowed))}")
        level = (
            self.level(entry["enforcementLevel"], (*path, "enforcementLevel")) if "enforcementLevel" in entry else None
        )
        unknown = entry.get("on_unknown")
        if unknown not in (None, "warn", "fail"):
            self.fault((*path, "on_unknown"), "write warn or fail")
            unknown = None
        names = [key for key in entry if key in allowed and key not in ("enforcementLevel", "on_unknown")]
        own = self.validated(_parameters_adapter(), {key: entry[key] for key in names}, path)
        return level, {name: getattr(own, name) for name in names} if own is not None else None, unknown

    def level(self, written: Any, path: Path) -> Level | None:
        if written in _LEVELS:
            return Level(written)
        self.fault(path, f"{written!r} is no level: write {', '.join(_LEVELS)}")
        return None

    def id_of(self, name: str, path: Path) -> str | None:
        """The id of the rule of that name; a policy's own name is its id."""
        if name in self.rules:
            return name
        if (id := rule_ids().get(name, rule_ids().get(name.upper()))) is not None:
            self.fault(path, f"CrossGuard knows this rule by its number only: write {id}")
        else:
            self.fault(path, f"there is no rule {name}{_did_you_mean(name, (*rule_ids(), ENTRY, _ALL))}")
        return None

    def ids(self, names: list[str], path: Path) -> Iterator[str]:
        for index, name in enumerate(names):
            id = rule_ids().get(name, rule_ids().get(name.upper()))
            if id is None:
                self.fault((*path, index), f"there is no rule {name}{_did_you_mean(name, rule_ids())}")
            else:
                yield id

    def suppressions(self, entries: list[SuppressionEntry], path: Path) -> Iterator[Suppression]:
        for index, entry in enumerate(entries):
            list(self.ids(entry.rules, (*path, index, "rules")))
            yield Suppression(
                "config", tuple(entry.rules), " ".join(entry.reason.split()), entry.until, path=(*path, index),
                place=self.document.position((*path, index)) if self.document else None,
                object=entry.object, file=entry.file, urn=entry.urn,
            )  # fmt: skip

    def outside_the_profile(self, config: Config, within: Path) -> None:
        for id, level in config.levels.items():
            rule = self.rules.get(id)
            if rule is None or level is Level.DISABLED or rule.profile <= config.profile or id in config.include:
                continue
            self.fault(
                (*within, id),
                f"has a level but does not run: profile {config.profile} does not hold it. "
                f'Add "include": ["{id}"] under {ENTRY}, or set "profile": "{rule.profile}"',
            )

    def validated(self, adapter: TypeAdapter[Any], written: Any, path: Path) -> Any:
        try:
            return adapter.validate_python(written)
        except ValidationError as error:
            for fault in error.errors():
                self.fault((*path, *fault["loc"]), _explained(fault, written))
            return None


@cache
def _parameters_adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Parameters)


@cache
def _settings_adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Settings)


def _explained(fault: Any, written: Any) -> str:
    """A fault of pydantic's in our words."""
    last = str(fault["loc"][-1]) if fault["loc"] else ""
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"there is no {last}{_did_you_mean(last, _names_at(fault['loc'][:-1]))}"
    if fault["type"] == "literal_error":
        return f"{fault['input']!r} is not one of {fault['ctx']['expected']}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _names_at(loc: tuple[Any, ...]) -> list[str]:
    if loc[:1] == ("parameters",):
        return sorted(Parameters.names())
    if loc[:1] == ("suppressions",):
        return sorted(SuppressionEntry.model_fields)
    return sorted({*Settings.model_fields, *Parameters.names()}) if not loc else []


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    near = catalog.nearest_names(name, tuple(names))
    return f": did you mean {' or '.join(near)}?" if near else ""


@cache
def parameter_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of each parameter, with its default and what it means."""
    schema = _parameters_adapter().json_schema()
    return {name: _untitled(part) for name, part in schema["properties"].items()}


def rule_schema(rule: Rule) -> dict[str, dict[str, Any]]:
    """The properties a rule's own entry may have beside its level."""
    schemas = parameter_schemas()
    on_unknown = {"enum": ["warn", "fail"], "description": "What follows where this rule cannot tell."}
    own = {name: {k: v for k, v in schemas[name].items() if k != "default"} for name in rule.parameters}
    return {"on_unknown": on_unknown, **own}


def settings_schema() -> dict[str, dict[str, Any]]:
    """The properties of the entry `triplane`, without references."""
    schema = _untitled(Settings.model_json_schema())
    definitions = schema.pop("$defs", {})
    properties: dict[str, dict[str, Any]] = _inlined(schema["properties"], definitions)
    return properties


def config_schema() -> dict[str, Any]:
    """The schema of a whole configuration file (draft 2020-12)."""
    level = {"enum": list(_LEVELS)}
    entries: dict[str, Any] = {_ALL: level}
    for rule in sorted((*all_rules(), *door_rules()), key=lambda rule: (rule.layer, rule.id)):
        properties = {"enforcementLevel": level, **rule_schema(rule)}
        entries[rule.id] = {
            "description": f"{rule.title}.",
            "anyOf": [level, {"type": "object", "properties": properties, "additionalProperties": False}],
        }
    settings = {
        "type": "object",
        "description": "What concerns all rules.",
        "properties": settings_schema(),
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Triplane configuration",
        "description": "For triplane check --config, and for pulumi up --policy-pack-config.",
        "type": "object",
        "properties": {
            "environments": {"description": "Pulumi ESC environments; read by the engine."},
            ENTRY: {"anyOf": [level, settings]},
            **entries,
        },
        "additionalProperties": False,
    }


def _untitled(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: {name: _untitled(part) for name, part in item.items()} if key == "properties" else _untitled(item)
            for key, item in value.items()
            if key != "title"
        }
    return [_untitled(item) for item in value] if isinstance(value, list) else value


def _inlined(value: Any, definitions: Mapping[str, Any]) -> Any:
    """CrossGuard takes a schema a property, which leaves no room for definitions."""
    if isinstance(value, dict):
        if "$ref" in value:
            target = definitions[value["$ref"].rpartition("/")[2]]
            return _inlined({**target, **{k: v for k, v in value.items() if k != "$ref"}}, definitions)
        return {key: _inlined(item, definitions) for key, item in value.items()}
    return [_inlined(item, definitions) for item in value] if isinstance(value, list) else value
