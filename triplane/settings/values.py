"""Typed values of a stack file: durations, percentages, quantities, times of day, versions and names.

Each type reads the text a person writes and prints it back in one canonical form, so that a manifest is deterministic.
"""

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class Form:
    """Text of one form, for `Annotated[str, Form(...)]`. Its error says what the text should be, not the pattern."""

    pattern: str
    says: str
    """What it is, with an example: `an AWS region such as us-east-1`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^({self.pattern})$"}

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise ValueError(f"must be {self.says}")
        return value


_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
LONGEST_SECONDS = 10 * 366 * 86400
_UNIT_SECONDS = (Decimal(86400), Decimal(3600), Decimal(60), Decimal(1), Decimal("0.001"))


def parse_duration(value: Any) -> dt.timedelta:
    """`90s`, `1h30m`, `1.2s`, `50ms`, `2d` -> timedelta. Plain numbers are refused: they name no unit."""
    if isinstance(value, dt.timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueError("a duration needs a number and a unit: 50ms, 90s, 10m, 1h30m or 2d")
    seconds = sum(
        (Decimal(part) * unit for part, unit in zip(match.groups(), _UNIT_SECONDS, strict=True) if part), Decimal(0)
    )
    if seconds > LONGEST_SECONDS:
        raise ValueError("is longer than ten years: is the unit right?")
    return dt.timedelta(microseconds=int(seconds * 1_000_000))


def format_duration(value: dt.timedelta) -> str:
    """The shortest form Go's and Karpenter's parsers read: `1h`, `30m`, `1h30m`, `90s` stays `1m30s`, `50ms`."""
    micros = round(value / dt.timedelta(microseconds=1))
    if micros % 1_000_000:
        whole, fraction = divmod(micros, 1000)
        return f"{whole}.{fraction:03d}".rstrip("0").rstrip(".") + "ms" if fraction else f"{whole}ms"
    seconds = micros // 1_000_000
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return "".join(f"{n}{u}" for n, u in ((hours, "h"), (minutes, "m"), (seconds, "s")) if n) or "0s"


_DURATION_SCHEMA = {"type": "string", "pattern": r"^(\d+(\.\d+)?(d|h|m|s|ms))+$", "examples": ["50ms", "90s", "1h30m"]}

Duration = Annotated[
    dt.timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(_DURATION_SCHEMA),
]
"""A length of time, zero or more."""


def _positive(value: dt.timedelta) -> dt.timedelta:
    if value <= dt.timedelta(0):
        raise ValueError("must be longer than 0s")
    return value


PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
"""A length of time above zero."""


def _whole_seconds(value: dt.timedelta) -> dt.timedelta:
    if value.microseconds:
        raise ValueError("must be whole seconds: Karpenter's durations know no fractions")
    return value


NodeDuration = Annotated[PositiveDuration, AfterValidator(_whole_seconds)]
"""A length of time in whole seconds, as Karpenter's schema demands (`^([0-9]+(s|m|h))+$`)."""


def _node_duration_or_never(value: Any) -> dt.timedelta | str:
    return "Never" if value == "Never" else _whole_seconds(_positive(parse_duration(value)))


NodeDurationOrNever = Annotated[
    dt.timedelta | Literal["Never"],
    PlainValidator(_node_duration_or_never),
    PlainSerializer(lambda value: value if value == "Never" else format_duration(value), return_type=str),
    WithJsonSchema({"anyOf": [{"const": "Never"}, _DURATION_SCHEMA]}),
]
"""A length of time in whole seconds, or `Never`."""


def parse_percentage(value: Any) -> float:
    """`70%` -> 0.7. A bare number is refused, since 0.7 and 70 are both common and differ a hundredfold."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a percentage needs its sign: 70%")
    return float(Decimal(match.group(1)) / 100)


Percentage = Annotated[
    float,
    BeforeValidator(parse_percentage),
    PlainSerializer(lambda share: f"{Decimal(str(share)) * 100:f}".rstrip("0").rstrip(".") + "%", return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?%$", "examples": ["70%"]}),
]
"""A share of one, written with a percent sign."""


_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_SUFFIX = {
    None: Decimal(1), "m": Decimal("0.001"),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
}  # fmt: skip


def quantity_value(text: str) -> Decimal:
    """A Kubernetes quantity in its base unit: `16` -> 16, `500m` -> 0.5, `64Gi` -> 68719476736. Raises ValueError."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity: write 16, 500m, 64Gi or 100G")
    return Decimal(match.group(1)) * _SUFFIX[match.group(2)]


def _quantity(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError("a quantity is a number with an optional suffix: 16, 500m, 64Gi")  # noqa: TRY004 - pydantic reports ValueError
    quantity_value(text)
    return text


Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    WithJsonSchema({"type": ["string", "integer"], "pattern": f"^{_QUANTITY.pattern}$", "examples": ["64Gi", "500m"]}),
]
"""An amount of CPU, memory or disk as Kubernetes writes it."""


def _time_of_day(value: Any) -> dt.time:
    if isinstance(value, dt.time):
        return value
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a time of day is written "02:00", in UTC, with quotes')
    return dt.time(int(match.group(1)), int(match.group(2)))


TimeOfDay = Annotated[
    dt.time,
    BeforeValidator(_time_of_day),
    PlainSerializer(lambda t: t.strftime("%H:%M"), return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d$", "examples": ["02:00"]}),
]
"""A time of day in UTC, to the minute."""


def _version(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d+(\.\d+)?", value):
        raise ValueError('a version is written "1.14.1" or "1.14", with quotes (YAML reads an unquoted 1.10 as 1.1)')
    if any(len(part) > 6 for part in value.split(".")):
        raise ValueError('a version is written "1.14.1" or "1.14"')
    return value


Version = Annotated[
    str, BeforeValidator(_version), WithJsonSchema({"type": "string", "pattern": r"^\d+\.\d+(\.\d+)?$"})
]
"""A release without a leading v."""


def version_key(version: str) -> tuple[int, int, int]:
    """`"1.14"` -> (1, 14, 0): for comparing releases in their own order."""
    parts = [int(part) for part in version.split(".")]
    return (parts[0], parts[1], parts[2] if len(parts) > 2 else 0)


_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def _name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 63 or not re.fullmatch(_DNS_LABEL, value):
        raise ValueError(
            "a name is at most 63 lower-case letters, digits and '-', and starts and ends with a letter or digit"
        )
    return value


Name = Annotated[
    str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{_DNS_LABEL}$", "maxLength": 63})
]
"""A DNS label (RFC 1123), as Kubernetes object names and label values need."""

GpuCount = Annotated[int, Field(ge=1, le=1_000, strict=True)]
"""A number of whole GPUs of one pod or node."""

Flag = Annotated[bool, Field(strict=True)]
"""true or false: the engine reads `yes` and `on` as text."""


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")  # noqa: TRY004 - pydantic reports ValueError
    return value


Number = Annotated[float, BeforeValidator(_number)]
"""A number; true and "1" are none."""

PositiveNumber = Annotated[Number, Field(gt=0)]
"""A number above zero."""

_QUALIFIED = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"


def label_key(value: Any) -> str:
    """A label or taint key as it is. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(_QUALIFIED, value):
        raise ValueError("a label or taint key is a name such as team or example.com/team")
    prefix, _, name = value.rpartition("/")
    if len(name) > 63 or len(prefix) > 253:
        raise ValueError("a label or taint key has at most 63 characters after its /, and 253 before")
    return value


def _label_value(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f'must be text: write "{str(value).lower()}", with quotes')  # noqa: TRY004 - pydantic reports ValueError
    if len(value) > 63 or not re.fullmatch(_LABEL_VALUE, value):
        raise ValueError("is at most 63 letters, digits, '-', '_' and '.', and starts and ends with a letter or digit")
    return value


LabelKey = Annotated[str, BeforeValidator(label_key), WithJsonSchema({"type": "string", "pattern": f"^{_QUALIFIED}$"})]
"""A label or taint key, as Kubernetes takes them."""

LabelValue = Annotated[
    str,
    BeforeValidator(_label_value),
    WithJsonSchema({"type": "string", "pattern": f"^{_LABEL_VALUE}$", "maxLength": 63}),
]
"""A label or taint value, as Kubernetes takes them."""

# Go's rendering of a time, which is what the engine makes of an unquoted one: `2026-12-01 03:10:00 +0000 UTC`.
_GO_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? ([-+]\d\d)(\d\d) \S+")


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    text = _GO_TIME.sub(r"\1T\2\3:\4", value) if isinstance(value, str) else ""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a moment is written 2026-12-01T03:10:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)


Moment = Annotated[
    dt.datetime,
    PlainValidator(_moment),
    PlainSerializer(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ"), return_type=str),
    WithJsonSchema({"type": "string", "examples": ["2026-12-01T03:10:00Z"]}),
]
"""A moment in UTC; without a zone it is UTC."""
