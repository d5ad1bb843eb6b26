"""Which plain value a YAML scalar is, in the reading of the two programs that matter here.

Kubernetes reads YAML through sigs.k8s.io/yaml (YAML 1.1 words: `yes`, `on`, `y` are booleans), the Pulumi engine reads
its stack files through gopkg.in/yaml.v3 (only `true` and `false` are). Both hand the result on as JSON, so a float
without a fraction is an integer, and infinities do not exist. A date is text to Kubernetes; the engine turns it into
Go's own rendering of a time (`2026-12-01` -> `2026-12-01 00:00:00 +0000 UTC`).
"""

import base64
import binascii
import datetime as dt
import enum
import math
import re
from decimal import Decimal


class Dialect(enum.Enum):
    """Which program's reading of YAML to follow."""

    KUBERNETES = "kubernetes"
    PULUMI = "pulumi"


Scalar = str | int | float | bool | None

# What the loader's resolver says of a scalar without an explicit tag: how it was written, not what it means.
PLAIN = "plain"
QUOTED = "tag:yaml.org,2002:str"

_TAG_PREFIX = "tag:yaml.org,2002:"
_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_TRUE_11 = _TRUE | {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"}
_FALSE_11 = _FALSE | {"n", "N", "no", "No", "NO", "off", "Off", "OFF"}
_NOT_FINITE = {sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")} | {".nan", ".NaN", ".NAN"}
_NUMBER_START = set("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_RADIX = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:[Tt](?P<zoned>\d{1,2}:\d{1,2}:\d{1,2})(?P<part>\.\d+)?(?P<zone>Z|[-+]\d{2}:\d{2}))"
    r"|(?: (?P<bare>\d{1,2}:\d{1,2}:\d{1,2})(?P<bare_part>\.\d+)?))?"
)


def resolve_scalar(text: str, tag: str, dialect: Dialect) -> Scalar:
    """The value of a scalar. `tag` is PLAIN, QUOTED or an explicit tag. Raises ValueError with a whole sentence."""
    if tag == PLAIN:
        return _plain(text, dialect)
    kind = tag.removeprefix(_TAG_PREFIX)
    if kind == "binary":
        try:
            return base64.b64decode(text, validate=False).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError("!!binary takes base64 of UTF-8 text") from None
    if not tag.startswith(_TAG_PREFIX) or kind not in ("int", "float", "bool", "null", "timestamp"):
        return text
    value = _plain(text, dialect)
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "null": value is None,
        "timestamp": _TIME.fullmatch(text) is not None,
    }
    if not fits[kind]:
        raise ValueError(f"{text!r} is no !!{kind}")
    return value


def _plain(text: str, dialect: Dialect) -> Scalar:
    if text in _NULL:
        return None
    true, false = (_TRUE_11, _FALSE_11) if dialect is Dialect.KUBERNETES else (_TRUE, _FALSE)
    if text in true:
        return True
    if text in false:
        return False
    if text[0] not in _NUMBER_START:
        return text
    if text in _NOT_FINITE:
        raise ValueError(f"{text} has no form in JSON, which is how this value is passed on")
    if text[0] != ".":
        if dialect is Dialect.PULUMI and text[4:5] == "-" and (time := _go_time(text)) is not None:
            return time
        digits = text.replace("_", "")
        if _INTEGER.fullmatch(digits):
            return _whole(int(digits))
        if radix := _RADIX.fullmatch(digits):
            sign = -1 if radix[1] == "-" else 1
            part, base = next((radix[group], base) for group, base in ((2, 16), (3, 2), (4, 8)) if radix[group])
            return _whole(sign * int(part, base))
        text_of_float = digits
    else:
        text_of_float = text.replace("_", "") if text[1:2] != "_" else text
    if _FLOAT.fullmatch(text_of_float) and math.isfinite(number := float(text_of_float)):
        return _json_number(number)
    return text


def _whole(number: int) -> int | float:
    """An integer as JSON carries it: outside 64 bits it passes through a float, in Go."""
    return number if -(2**63) <= number < 2**64 else _json_number(float(number))


def _json_number(number: float) -> int | float:
    """Go's JSON writes a whole float below 1e21 without a fraction, so that its reader sees an integer."""
    if number.is_integer() and abs(number) < 1e21:
        return int(Decimal(repr(number)))
    return number


def _go_time(text: str) -> str | None:
    """`time.Time.String()` of what yaml.v3 takes for a time; None where it is text."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    zone = match["zone"] or "Z"
    clock = match["zoned"] or match["bare"] or "0:0:0"
    offset = zone[0] + zone[1:].replace(":", "") if zone != "Z" else "+0000"
    try:
        hour, minute, second = map(int, clock.split(":"))
        moment = dt.datetime(int(match[1]), int(match[2]), int(match[3]), hour, minute, second)
        dt.time(int(offset[1:3]), int(offset[3:5]))
    except ValueError:
        return None
    fraction = (match["part"] or match["bare_part"] or "")[:10].rstrip("0").rstrip(".")
    name = "UTC" if offset in ("+0000", "-0000") else offset
    return f"{moment.isoformat(' ')}{fraction} {offset.replace('-0000', '+0000')} {name}"


def key_text(value: Scalar) -> str:
    """A key that is no string, as Go prints it: `1: x` -> "1", `true: x` -> "true", `1.50: x` -> "1.5"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
