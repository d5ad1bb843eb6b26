"""Which series a PromQL query reads, from its syntax tree."""

from collections.abc import Iterator
from typing import Any

import promql_parser


def series_of(query: str) -> Iterator[promql_parser.VectorSelector]:
    """Every series selector in `query`. Raises ValueError where the query is no PromQL."""
    pending: list[Any] = [promql_parser.parse(query)]
    while pending:
        node = pending.pop()
        if isinstance(node, promql_parser.VectorSelector):
            yield node
        for part in ("lhs", "rhs", "expr", "args", "vector_selector"):
            child = getattr(node, part, None)
            pending += child if isinstance(child, list) else [child] if child is not None else []
