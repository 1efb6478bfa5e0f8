"""How documents lie in a Delta table: the columns, and what of a document is said in them. Pure.

`_id` is a text that names the document's id (`values/identity.py`), `document` the document in BSON, which is the truth. Each path that is
indexed has a column beside them, a struct whose fields have statistics in the log:

- `number`: a number, as a double: the nearest one, so that numbers keep their order though not their differences
- `kind`: BSON's number of the number's type: 1 a double, 16 an int, 18 a long; a negative one where `number` is not the number as it was
  written: a decimal, -0.0, a long that no double equals
- `text`: a text
- `date`: a date, in UTC
- `other`: true where anything else lies there that is neither null nor missing: an array, a document, a value of another type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.documents.filters.tree import Path
from gapless.documents.values.indexed import indexed_value
from gapless.errors import InvalidOption, UnsupportedTable

ID_COLUMN, DOCUMENT_COLUMN = "_id", "document"
FORMAT, FORMAT_VERSION = "documents.version", "1"
"""The property that says of a table that it is a collection."""
INDEXES = "documents.indexes"
"""The property that holds the indexes, as JSON."""
ID_INDEX = "_id_"
"""What the index of `_id` is called, which is always there."""
INDEXED = pa.struct(
    [
        pa.field("number", pa.float64()),
        pa.field("kind", pa.int8()),
        pa.field("text", pa.string()),
        pa.field("date", pa.timestamp("us", tz="UTC")),
        pa.field("other", pa.bool_()),
    ]
)
SCHEMA = pa.schema([pa.field(ID_COLUMN, pa.string(), nullable=False), pa.field(DOCUMENT_COLUMN, pa.binary(), nullable=False)])
PROPERTIES: Mapping[str, str] = {
    FORMAT: FORMAT_VERSION,
    # Rows that another engine appends without a look at the table count in races, too.
    "delta.isolationLevel": "Serializable",
    # Of every index, and not of the first columns alone.
    "delta.dataSkippingNumIndexedCols": "-1",
    # So that a document is read with few others.
    "gapless.rowGroupRows": "2048",
}
_DIRECTIONS = (1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Paths of which statistics are kept."""

    name: str
    keys: tuple[tuple[str, int], ...]
    """Dotted paths, each with 1 or -1, as they were given."""
    columns: tuple[str, ...]
    """The column of each."""

    def describe(self) -> dict[str, Any]:
        """As `list_indexes` gives it."""
        return {"v": 2, "key": dict(self.keys), "name": self.name}


def parse_keys(keys: object) -> tuple[tuple[str, int], ...]:
    """What pymongo's `create_index` takes: a path, or pairs of a path and a direction. Raises InvalidOption."""
    given = [(keys, 1)] if isinstance(keys, str) else list(keys.items()) if isinstance(keys, Mapping) else keys
    found = []
    for one in given if isinstance(given, list | tuple) else [given]:
        path, direction = (
            (one, 1) if isinstance(one, str) else one if isinstance(one, tuple | list) and len(one) == 2 else (one, 0)
        )
        if not isinstance(path, str) or not all(path.split(".")) or path.startswith("$") or direction not in _DIRECTIONS:
            raise InvalidOption(
                f"keys={keys!r} cannot be indexed",
                why="Paths are indexed, up or down; text, hashed and geometric indexes are not there",
                fix='Pass "a.b", or [("a.b", 1), ("c", -1)]',
                option="keys",
                value=keys,
            )
        found.append((path, int(direction)))
    if not found or len({path for path, _ in found}) < len(found):
        raise InvalidOption(
            f"keys={keys!r} names no path, or one twice",
            fix="Name each path once",
            option="keys",
            value=keys,
        )
    return tuple(found)


def new_index(name: str | None, keys: tuple[tuple[str, int], ...], known: Sequence[Index], taken: Iterable[str]) -> Index:
    """An index with its columns: those that other indexes have for its paths, and new names for others."""
    of_path = columns_of(known)
    used = {one.lower() for one in taken}
    columns = []
    for path, _ in keys:
        column = of_path.get(tuple(path.split(".")))
        if column is None:
            base = column = f"by_{re.sub('[^A-Za-z0-9_]', '_', path)}"
            number = 2
            while column.lower() in used:
                column, number = f"{base}_{number}", number + 1
            used.add(column.lower())
        columns.append(column)
    made = "_".join(f"{path}_{direction}" for path, direction in keys)
    return Index(name=name or made, keys=keys, columns=tuple(columns))


def columns_of(indexes: Iterable[Index]) -> dict[Path, str]:
    """The columns by the paths that they tell of."""
    return {tuple(path.split(".")): column for one in indexes for (path, _), column in zip(one.keys, one.columns, strict=True)}


def write_indexes(indexes: Iterable[Index]) -> str:
    """The indexes as the table's property has them."""
    return json.dumps(
        [{"name": one.name, "keys": [list(key) for key in one.keys], "columns": list(one.columns)} for one in indexes]
    )


def read_indexes(configuration: Mapping[str, str], url: str) -> tuple[Index, ...]:
    """The indexes of a table. Raises UnsupportedTable where it is no collection of this release's."""
    if (found := configuration.get(FORMAT)) != FORMAT_VERSION:
        raise UnsupportedTable(
            f"{url} is no collection of documents that this release knows",
            why=f"Its property {FORMAT} is {found!r}" if found else f"It is a Delta table without the property {FORMAT}",
            fix="Read it with gl.delta.open, or update gapless" if found is None else "Update gapless",
            needs=f"{FORMAT} = {FORMAT_VERSION}",
        )
    try:
        return tuple(
            Index(name=one["name"], keys=tuple((path, way) for path, way in one["keys"]), columns=tuple(one["columns"]))
            for one in json.loads(configuration.get(INDEXES, "[]"))
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UnsupportedTable(
            f"the indexes of {url} cannot be read",
            why=f"Its property {INDEXES} is not what this release writes",
            fix="Update gapless, or restore the property",
            needs=INDEXES,
        ) from error


def rows_of(
    ids: Sequence[str], documents: Sequence[Mapping[str, Any]], data: Sequence[bytes], indexes: Iterable[Index]
) -> pa.Table:
    """Documents as rows, with the columns of these indexes."""
    columns: dict[str, pa.Array] = {
        ID_COLUMN: pa.array(ids, pa.string()),
        DOCUMENT_COLUMN: pa.array(data, pa.binary()),
    }
    for path, column in columns_of(indexes).items():
        columns[column] = pa.array([indexed_value(one, path) for one in documents], INDEXED)
    return pa.table(columns)
