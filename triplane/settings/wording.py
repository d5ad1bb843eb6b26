"""pydantic's errors in the words of the person who wrote the file: what was found, what is allowed, what to type."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from triplane.documents import Path

_TYPES = {
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "frozen_set_type": "a list",
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
}

_BOUNDS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
}

# Keys that people look for and that have no place, on purpose, by the block they look in.
_ON_PURPOSE = {
    "consolidationPolicy": "has no switch: every pool is WhenEmpty, since any other policy ends running GPU pods",
    "budgets": "are written by the pool itself: open drift with maintenance: {days: [sat, sun], from: ..., to: ...}",
    "cooldownPeriod": "has no place: it acts only at the step from 1 to 0. Scale-down windows follow coldStart",
}


@dataclass(frozen=True)
class Finding:
    """A mistake before its place is looked up."""

    path: Path
    message: str
    at_key: bool = False
    """The key is meant, not its value."""
    is_wrong_name: bool = False
    """The key is none that may stand there, so that what is below it does not matter yet."""


def findings_of(error: ValidationError, values: Any, model: type[BaseModel]) -> Iterator[Finding]:
    """Each error of pydantic. `values` is what was validated, `model` what it was validated as."""
    for details in error.errors(include_url=False):
        path = real_path(details["loc"], values)
        is_wrong_name = "[key]" in details["loc"]
        at_key = is_wrong_name or details["type"] in ("missing", "extra_forbidden")
        yield Finding(path, _message(details, path, values, model), at_key, is_wrong_name)


def real_path(loc: Sequence[Any], values: Any) -> Path:
    """pydantic's location without the parts that are no key of the file, such as a union's member or `[key]`."""
    path: list[str | int] = []
    for index, part in enumerate(loc):
        if isinstance(values, Mapping):
            if part not in values and (part == "[key]" or index < len(loc) - 1):
                continue
            values = values.get(part)
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            values = values[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def model_at(path: Path, model: type[BaseModel], values: Any) -> type[BaseModel] | None:
    """The settings model of the mapping at `path`; None where that is no model."""
    current: Any = model
    for part in path:
        values = _inside(values, part)
        if isinstance(current, type) and issubclass(current, BaseModel):
            fields = {field.alias or name: field for name, field in current.model_fields.items()}
            if part not in fields:
                return None
            annotation: Any = fields[str(part)].annotation
        else:
            annotation = get_args(current)[1 if get_origin(current) is dict else 0]
        current = _shape(annotation, values)
        if current is None:
            return None
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _inside(values: Any, part: str | int) -> Any:
    if isinstance(values, Mapping):
        return values.get(part)
    if isinstance(values, list) and isinstance(part, int) and part < len(values):
        return values[part]
    return None


def _shape(annotation: Any, values: Any) -> Any:
    """The model, dict or tuple that an annotation stands for; of several models, the one that knows most keys."""
    candidates = list(_candidates(annotation))
    models = [c for c in candidates if isinstance(c, type)]
    if len(models) > 1 and isinstance(values, Mapping):
        return max(models, key=lambda m: len(_keys(m) & set(values)))
    return candidates[0] if candidates else None


def _candidates(annotation: Any) -> Iterator[Any]:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    if is_model or get_origin(annotation) in (dict, tuple):
        yield annotation
    else:
        for argument in get_args(annotation):
            yield from _candidates(argument)


def _keys(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _message(details: ErrorDetails, path: Path, values: Any, model: type[BaseModel]) -> str:
    kind, context, found = details["type"], details.get("ctx", {}), details["input"]
    reason = str(context["error"]) if "error" in context else details["msg"]
    if "[key]" in details["loc"]:
        name = details["loc"][-2]
        if kind == "literal_error":
            return (
                f'unknown key "{name}".{did_you_mean(str(name), _words(context))} Allowed: {", ".join(_words(context))}'
            )
        return f'"{name}" cannot be a name: {reason}'
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        owner = model_at(path[:-1], model, values)
        return unknown_key(str(path[-1]), list(_keys_in_order(owner)) if owner else ())
    if kind == "literal_error":
        return not_among(found, _words(context))
    if kind in _TYPES:
        if found is None:
            return f"is empty: write {_TYPES[kind]}, or leave the key out"
        quotes = ", with quotes" if kind == "string_type" and not isinstance(found, Mapping | list) else ""
        return f"must be {_TYPES[kind]}{quotes}, found {describe(found)}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"must be {words} {context[key]:,}, found {describe(found)}"
    if kind in ("too_short", "string_too_short"):
        return "is empty: it needs at least one entry" if kind == "too_short" else "is empty: write some text"
    if kind in ("too_long", "string_too_long"):
        return f"is too long: at most {context['max_length']} {'entries' if kind == 'too_long' else 'characters'}"
    return f"{reason}; found {describe(found)}"


def _words(context: Mapping[str, Any]) -> list[str]:
    return re.findall(r"'([^']*)'", str(context["expected"]))


def _keys_in_order(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


def unknown_key(key: str, allowed: Sequence[str]) -> str:
    """`unknown key "gpuPerNode". Did you mean gpusPerNode? Allowed: ...`"""
    if key in _ON_PURPOSE:
        return f'"{key}" {_ON_PURPOSE[key]}'
    return f'unknown key "{key}".{did_you_mean(key, allowed)} Allowed: {", ".join(allowed) or "nothing"}'


def not_among(found: Any, allowed: Sequence[str]) -> str:
    """`must be serving, training or batch, found "servin". Did you mean serving?`"""
    choice = allowed[0] if len(allowed) == 1 else f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    hint = did_you_mean(found, allowed) if isinstance(found, str) else ""
    return f"must be {choice}, found {describe(found)}{'.' + hint if hint else ''}"


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """` Did you mean decode?`, or nothing where no name is near. Case and punctuation do not count."""
    by_letters = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in allowed}
    close = difflib.get_close_matches(re.sub(r"[^a-z0-9]", "", word.lower()), by_letters, n=1)
    return f" Did you mean {by_letters[close[0]]}?" if close else ""


def is_encrypted(value: Any) -> bool:
    """Whether a value is a secret as the engine writes it into a stack file: `{secure: ...}`."""
    return isinstance(value, Mapping) and len(value) == 1 and isinstance(value.get("secure"), str)


def encrypted_paths(values: Any, path: Path = ()) -> Iterator[Path]:
    """The path of every encrypted value."""
    if is_encrypted(values):
        yield path
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from encrypted_paths(value, (*path, key))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from encrypted_paths(value, (*path, index))


def describe(value: Any) -> str:
    """A found value as a person wrote it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"a mapping with {', '.join(map(str, list(value)[:4]))}" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:56] + ('..."' if isinstance(value, str) else "...")
