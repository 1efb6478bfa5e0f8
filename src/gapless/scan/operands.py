"""What a predicate is asked of: columns by name, for an expression, or their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Answer = Any
"""An expression, or the array or scalar that it stands for."""


class Named:
    """Columns by their names: what is made of them is an expression."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def column(self, path: Sequence[str]) -> pc.Expression:
        """A column or a field of structs."""
        return pc.field(*path)

    def scalar(self, value: pa.Scalar) -> pc.Expression:
        """A value that all rows have in common."""
        return pc.scalar(value)


class Held:
    """The columns of a table: what is made of them are values."""

    def __init__(self, rows: pa.Table) -> None:
        self.schema, self._rows = rows.schema, rows

    def column(self, path: Sequence[str]) -> pa.ChunkedArray:
        """A column or a field of structs."""
        found = self._rows.column(path[0])
        return pc.struct_field(found, list(path[1:])) if len(path) > 1 else found

    def scalar(self, value: pa.Scalar) -> pa.Scalar:
        """A value that all rows have in common."""
        return value


Seen = Named | Held
