"""Request traces, read row by row and checked: nothing that does not make sense becomes a request.

| format | columns | time |
|---|---|---|
| azure | TIMESTAMP, ContextTokens, GeneratedTokens | date and clock |
| mooncake | JSON lines: timestamp, input_length, output_length, hash_ids (optional) | milliseconds |
| burstgpt | Timestamp, Request tokens, Response tokens (others are ignored) | seconds |
| plain | time, input_tokens, output_tokens | seconds |

The format is told from the first line; a file may be gzipped. Times count from the first request. Sources: Azure LLM
inference trace 2023 and 2024 (Azure/AzurePublicDataset), Mooncake (kvcache-ai/Mooncake), BurstGPT (HPMLL/BurstGPT).
"""

import csv
import datetime
import gzip
import itertools
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from triplane.simulation.requests import Requests

Format = Literal["azure", "mooncake", "burstgpt", "plain"]
COLUMNS: dict[Format, tuple[str, str, str]] = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "mooncake": ("timestamp", "input_length", "output_length"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
    "plain": ("time", "input_tokens", "output_tokens"),
}
MOST_TOKENS = 100_000_000
MOONCAKE_BLOCK = 512  # tokens of one hash id in the published traces
CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?$")


class TraceError(ValueError):
    """A trace that cannot be used: says where and why."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}:{line}: {problem}" if line is not None else f"{path}: {problem}")


@dataclass(frozen=True)
class Trace:
    """A trace's requests, and what was read to get them."""

    requests: Requests
    format: Format
    rows: int
    """Rows read."""
    skipped: int
    """Rows left out because nothing was generated; only with skip_failed."""


def read_trace(
    path: Path | str,
    *,
    limit: int | None = None,
    until: float | None = None,
    skip_failed: bool = False,
) -> Trace:
    """Read a trace, or its first `limit` requests, or its first `until` seconds: reading stops there.

    Memory grows by 24 bytes a request kept, whatever the size of the file. With `skip_failed` a row with 0 generated
    tokens, which is how BurstGPT records a failed request, is counted and left out. Raises TraceError with the line of
    the first row that is incomplete, not a number, negative, without tokens, or earlier than the one before it.
    """
    path = Path(path)
    times, prompts, outputs = array("d"), array("q"), array("q")
    ids, starts, names = array("q"), array("q", [0]), _PrefixNames()
    rows = skipped = 0
    start = before = 0.0
    origin: int | None = None
    try:
        with _open(path) as text:
            kind, records = _records(path, text)
            parse = _azure_clock if kind == "azure" else None
            for line, (clock, prompt, output, hashes) in records:
                rows += 1
                if parse is not None:
                    ticks = parse(path, line, clock)
                    origin = ticks if origin is None else origin
                    now = (ticks - origin) / 1e9
                else:
                    now = _seconds(path, line, COLUMNS[kind][0], clock, 1e-3 if kind == "mooncake" else 1.0)
                if rows == 1:
                    start = now
                if now < before and rows > 1:
                    raise TraceError(path, line, f"time goes back by {before - now:.6g} s; sort the trace by time")
                before = now
                if until is not None and now - start >= until:
                    rows -= 1
                    break
                size = _tokens(path, line, COLUMNS[kind][1], prompt, least=1)
                answer = _tokens(path, line, COLUMNS[kind][2], output, least=0 if skip_failed else 1)
                if answer == 0:
                    skipped += 1
                    continue
                times.append(now - start)
                prompts.append(size)
                outputs.append(answer)
                if hashes is not None:
                    ids.extend(names.chain(path, line, hashes, size))
                    starts.append(len(ids))
                if limit is not None and len(times) == limit:
                    break
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(path, None, f"cannot be read to its end: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(path, None, f"is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if not times:
        raise TraceError(path, None, "holds no requests")
    if len(ids) and len(starts) != len(times) + 1:
        raise TraceError(path, None, "hash_ids on some rows only")
    prefixes: dict[str, Any] = {}
    if len(ids):
        prefixes = {
            "prefix_start": np.frombuffer(starts, np.int64),
            "prefix_ids": np.frombuffer(ids, np.int64),
            "prefix_block": MOONCAKE_BLOCK,
        }
    columns = np.frombuffer(times, np.float64), np.frombuffer(prompts, np.int64), np.frombuffer(outputs, np.int64)
    return Trace(Requests(*columns, **prefixes), kind, rows, skipped)


def _open(path: Path) -> IO[str]:
    with path.open("rb") as head:
        zipped = head.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8-sig", newline="")


Row = tuple[Any, Any, Any, "list[Any] | None"]


def _records(path: Path, text: IO[str]) -> tuple[Format, Iterator[tuple[int, Row]]]:
    """The format, and every row as (line, (time, prompt, output, hash ids))."""
    first = text.readline()
    if not first.strip():
        raise TraceError(path, 1, "is empty: expected a header or a JSON object")
    if first.lstrip().startswith("{"):
        return "mooncake", _json_rows(path, itertools.chain([first], text))
    header = [name.strip() for name in next(csv.reader([first]))]
    for kind, columns in COLUMNS.items():
        if set(columns) <= set(header):
            return kind, _csv_rows(path, text, [header.index(name) for name in columns], len(header))
    known = "; ".join(f"{kind}: {', '.join(columns)}" for kind, columns in COLUMNS.items() if kind != "mooncake")
    raise TraceError(path, 1, f"columns {', '.join(header)} fit no known trace ({known})")


def _csv_rows(path: Path, text: IO[str], places: list[int], width: int) -> Iterator[tuple[int, Row]]:
    a, b, c = places
    reader = csv.reader(text)
    try:
        for row in reader:
            if len(row) != width:
                if not row:
                    continue
                raise TraceError(path, reader.line_num + 1, f"{len(row)} values where the header has {width} columns")
            yield reader.line_num + 1, (row[a], row[b], row[c], None)
    except csv.Error as error:
        raise TraceError(path, reader.line_num + 1, str(error)) from error


def _json_rows(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, Row]]:
    for line, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise TraceError(path, line, f"is no JSON object: {error.msg}") from error
        if not isinstance(row, dict):
            raise TraceError(path, line, "is no JSON object")
        missing = [name for name in COLUMNS["mooncake"] if name not in row]
        if missing:
            raise TraceError(path, line, f"{', '.join(missing)} is missing")
        time, prompt, output = (row[name] for name in COLUMNS["mooncake"])
        yield line, (time, prompt, output, row.get("hash_ids"))


def _seconds(path: Path, line: int, column: str, value: Any, unit: float) -> float:
    try:
        seconds = float(value) * unit
    except (TypeError, ValueError):
        raise TraceError(path, line, f"{column} is {value!r}, not a time") from None
    if not math.isfinite(seconds) or seconds < 0:
        raise TraceError(path, line, f"{column} is {value}: a time must be finite and not negative")
    return seconds


_DAYS: dict[str, int] = {}


def _azure_clock(path: Path, line: int, value: str) -> int:
    """Nanoseconds since year 1; the trace has a resolution of 100 ns."""
    match = CLOCK.match(value.strip())
    if match is None:
        raise TraceError(
            path, line, f"TIMESTAMP is {value!r}, not a date and a clock such as 2023-11-16 18:15:46.68059"
        )
    day, hour, minute, second, fraction, zone = match.groups()
    try:
        days = _DAYS.get(day) or _DAYS.setdefault(day, datetime.date.fromisoformat(day).toordinal())
    except ValueError as error:
        raise TraceError(path, line, f"TIMESTAMP is {value!r}: {error}") from error
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise TraceError(path, line, f"TIMESTAMP is {value!r}: no such clock")
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    if zone and zone != "Z":
        seconds -= (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def _tokens(path: Path, line: int, column: str, value: Any, least: int) -> int:
    try:
        count = int(value) if not isinstance(value, float) or value.is_integer() else None
    except (TypeError, ValueError, OverflowError):
        count = None
    if count is None or isinstance(value, bool):
        raise TraceError(path, line, f"{column} is {value!r}, not a whole number of tokens")
    if not least <= count <= MOST_TOKENS:
        raise TraceError(path, line, f"{column} is {count}: must be {least} to {MOST_TOKENS}")
    return count


class _PrefixNames:
    """One number for each chain of hash ids: two prompts agree on a block only if they agree on all before it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def chain(self, path: Path, line: int, hashes: Any, tokens: int) -> list[int]:
        if not isinstance(hashes, list) or not all(type(h) is int for h in hashes):
            raise TraceError(path, line, "hash_ids is not a list of whole numbers")
        if len(hashes) > -(-tokens // MOONCAKE_BLOCK):
            raise TraceError(
                path, line, f"{len(hashes)} hash_ids of {MOONCAKE_BLOCK} tokens for {tokens} prompt tokens"
            )
        chain, parent = [], -1
        for h in hashes:
            parent = self._known.setdefault((parent, h), len(self._known))
            chain.append(parent)
        return chain
