"""Rows of tables as multisets that tell every value and its type apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa


def told(value: Any) -> Any:
    """A value by which it can be told from any other: floats bit for bit but for NaN, instants in UTC, maps without an order of keys."""
    match value:
        case bool() | None | str() | bytes():
            return value
        case float():
            return f"float {value.hex()}"
        case datetime() if value.tzinfo is not None:
            return f"instant {value.astimezone(UTC).isoformat()}"
        case Mapping():
            return {name: told(one) for name, one in value.items()}
        case list() | tuple():
            return [told(one) for one in value]
        case _:
            return f"{type(value).__name__} {value}"


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How often each row comes; the order of columns counts for nothing."""
    return Counter(repr(told(dict(sorted(row.items())))) for row in rows)


def counted_table(table: pa.Table) -> Counter[str]:
    """The same of an Arrow table."""
    return counted(table.to_pylist())
