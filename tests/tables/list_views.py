"""Run as a program: lists of a kind that Arrow has crashed on, into tables of either kind, in every write.

The kind is "list_view", "large_list_view", or "bare" for values of which what lies within has no buffers. Prints "whole" where nothing was
lost.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import gapless as gl

CHILDREN: dict[str, tuple[pa.DataType, Any]] = {
    "number": (pa.int64(), lambda n: n),
    "text": (pa.string(), str),
    "struct": (pa.struct([("a", pa.int64())]), lambda n: {"a": n}),
    "list": (pa.list_(pa.int64()), lambda n: [n]),
    "view": (pa.list_view(pa.int64()), lambda n: [n]),
}
LISTS = [[1, 2], None, [], [3]] * 50


def bare_columns() -> Iterator[tuple[str, pa.Array]]:
    """Null and empty values whose children have no rows, and no buffers either; validate(full=True) finds nothing wrong with them."""
    count = len(LISTS)
    valid = pa.array([n % 2 == 0 for n in range(count)]).buffers()[1]
    offsets = pa.array([0] * (count + 1), pa.int32()).buffers()[1]
    floats = pa.Array.from_buffers(pa.float32(), 0, [None, None])
    structs = pa.Array.from_buffers(pa.struct([("a", pa.float32())]), 0, [None], children=[floats])
    pairs = pa.struct([pa.field("key", pa.float32(), nullable=False), pa.field("value", pa.float32())])
    entries = pa.Array.from_buffers(pairs, 0, [None], children=[floats, floats])

    def lists(child: pa.Array, type_: pa.DataType | None = None) -> pa.Array:
        return pa.Array.from_buffers(type_ or pa.list_(child.type), count, [valid, offsets], children=[child])

    yield "floats", lists(floats)
    yield "structs", lists(structs)
    yield "lists", lists(lists(structs).slice(count))
    yield "map", lists(entries, pa.map_(pa.float32(), pa.float32()))
    yield "in_struct", pa.StructArray.from_arrays([lists(structs)], ["l"])
    yield "nulls", pa.nulls(count, pa.list_(pa.struct([("a", pa.list_(pa.int8(), 3))])))


def columns(kind: str) -> Iterator[tuple[str, pa.Array]]:
    if kind == "bare":
        yield from bare_columns()
        return
    for name, (child, make) in CHILDREN.items():
        views = pa.array([None if one is None else [make(n) for n in one] for one in LISTS], getattr(pa, kind)(child))
        count = len(views)
        yield name, views
        yield f"{name}_part", pa.concat_arrays([views.slice(0, 1), views]).slice(1)
        mask = pa.array([n % 3 == 0 for n in range(count)])
        yield f"{name}_in_structs", pa.StructArray.from_arrays([views], ["l"], mask=mask)
        yield (
            f"{name}_in_maps",
            pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), pa.array(["k"] * count), views),
        )


def into_delta(rows: pa.Table) -> Any:
    table = gl.delta.create(tempfile.mkdtemp() + "/t", rows.schema)
    table.append(rows)
    merge = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    table.overwrite(rows)
    table.append(rows.slice(0, 0))
    return table


def into_time_series(rows: pa.Table) -> gl.TimeSeriesTable:
    table = gl.create(tempfile.mkdtemp() + "/t", index="id", bucket=100, index_type="int64")
    table.append(rows)
    table.upsert(rows)
    return table


def main(kind: str) -> None:
    made = dict(columns(kind))
    count = len(LISTS)
    rows = pa.table({"id": pa.array(range(count), pa.int64()), **made})
    for table in (into_delta(rows), into_time_series(rows)):
        found = table.scan().to_arrow().sort_by("id")
        for name, column in made.items():
            wanted = column.to_pylist()
            assert found.column(name).to_pylist() == wanted, f"{name} is not {wanted[:8]}"
    print("whole")


if __name__ == "__main__":
    main(sys.argv[1])
