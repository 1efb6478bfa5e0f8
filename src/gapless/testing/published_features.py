"""What of a time-series table survives its publication in another format: each feature tried on a table of its own, in each format.

`FEATURES` are what users do; `survives` says of one what came of it. docs/reference/publishing.md is made of these, and tests hold what is
told to survive against what readers of the format find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

import gapless as gl
from gapless.model.publishing import PUBLISHED_FORMATS, PublishedFormat
from gapless.tables.delta.table import DeltaTable

START = datetime(2026, 1, 5, tzinfo=UTC)
Change = Callable[[Any], object]
Table = TypeVar("Table", gl.TimeSeriesTable, DeltaTable)


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that a table can have."""

    name: str
    group: str
    first: pa.Table
    """The rows that the table begins with, which say its columns."""
    change: Change | None = None
    """What is done then; None where the columns are meant."""
    named: Mapping[str, object] = field(default_factory=dict)
    """What the table is made with."""


def rows(first: int = 0, count: int = 4, **columns: pa.Array) -> pa.Table:
    """Hours from `first` on, of two sites, with a number each, and further columns."""
    times = pa.array([START + timedelta(hours=first + n) for n in range(count)], pa.timestamp("us", "UTC"))
    sites = pa.array(["ab"[n % 2] for n in range(count)])
    numbers = pa.array(range(first, first + count), pa.int32())
    return pa.table({"ts": times, "site": sites, "n": numbers, **columns})


def made(place: Path, first: pa.Table, format_: PublishedFormat) -> gl.TimeSeriesTable:
    """A table that is published in a format, with its first rows. Raises what refuses its columns."""
    table = gl.create(place, index="ts", bucket="1h", entity=["site"], schema=first.schema, properties={"publish": [format_]})
    table.append(first)
    return table


def _all(*changes: Change) -> Change:
    def change(table: gl.TimeSeriesTable) -> None:
        for one in changes:
            one(table)

    return change


def _column(name: str, values: pa.Array) -> Feature:
    return Feature(f"`{name}`", "Columns", rows(count=len(values), value=values))


_DROP_AND_ADD = _all(
    lambda table: table.drop_column("v"),
    lambda table: table.add_column("v", pa.string()),
    lambda table: table.append(rows(10, 2, v=pa.array(["new", None]))),
)
_INT, _FLOAT = pa.array([1, 2, None, 4], pa.int32()), pa.array([0.5, None, 2.5, 4.0], pa.float32())
_SMALL = pa.array([1, None, 3, 4], pa.int16())
_DECIMAL = pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal("9.99")], pa.decimal128(5, 2))


def _widen(name: str, values: pa.Array, type_: pa.DataType) -> Feature:
    def change(table: gl.TimeSeriesTable) -> None:
        table.widen_column("v", type_)
        table.append(rows(10, 4, v=values.cast(type_)))

    return Feature(f"Widen {name}", "Columns that change", rows(v=values), change)


FEATURES = (
    Feature("Append", "Rows that change", rows(), lambda table: table.append(rows(4))),
    Feature("Upsert", "Rows that change", rows(), lambda table: table.upsert(rows(2))),
    Feature("Delete", "Rows that change", rows(), lambda table: table.delete("n = 2")),
    Feature(
        "Replace a range",
        "Rows that change",
        rows(),
        lambda table: table.replace((START, START + timedelta(hours=2)), rows(0, 1)),
    ),
    Feature("Drop all before a time", "Rows that change", rows(), lambda table: table.drop_before(START + timedelta(hours=2))),
    Feature("Compact", "Rows that change", rows(), _all(lambda table: table.append(rows(4)), lambda table: table.compact())),
    Feature(
        "Restore",
        "Rows that change",
        rows(),
        _all(lambda table: table.delete("n = 2"), lambda table: table.restore(version=table.version - 1)),
    ),
    Feature(
        "Expire and vacuum",
        "Rows that change",
        rows(),
        _all(
            lambda table: table.upsert(rows(2)),
            lambda table: table.expire(keep_versions=1),
            lambda table: table.vacuum(timedelta(0), dry_run=False),
        ),
    ),
    Feature(
        "Add a column",
        "Columns that change",
        rows(),
        _all(
            lambda table: table.add_column("v", pa.string()),
            lambda table: table.append(rows(10, 2, v=pa.array(["x", None]))),
        ),
    ),
    Feature(
        "Add a column with a default",
        "Columns that change",
        rows(),
        lambda table: table.add_column("v", pa.int64(), default=7),
    ),
    Feature("Rename a column", "Columns that change", rows(v=_INT), lambda table: table.rename_column("v", "w")),
    Feature("Drop a column", "Columns that change", rows(v=_INT), lambda table: table.drop_column("v")),
    Feature("Drop a column, add its name again", "Columns that change", rows(v=_INT), _DROP_AND_ADD),
    Feature("Reorder columns", "Columns that change", rows(v=_INT), lambda table: table.reorder_columns(["v", "ts"])),
    _widen("`int16` to `int32`", _SMALL, pa.int32()),
    _widen("`int32` to `int64`", _INT, pa.int64()),
    _widen("`int32` to `float64`", _INT, pa.float64()),
    _widen("`float32` to `float64`", _FLOAT, pa.float64()),
    _widen("`decimal128(5, 2)` to `(9, 2)`", _DECIMAL, pa.decimal128(9, 2)),
    Feature("Rows in commits (`inline_bytes`)", "Other", rows(), lambda table: table.set_properties({"inline_bytes": 1 << 16})),
    _column("bool", pa.array([True, None])),
    _column("int8", pa.array([-128, None], pa.int8())),
    _column("int16", pa.array([-(2**15), None], pa.int16())),
    _column("int32", pa.array([-(2**31), None], pa.int32())),
    _column("int64", pa.array([2**63 - 1, None], pa.int64())),
    _column("uint8", pa.array([255, None], pa.uint8())),
    _column("uint16", pa.array([2**16 - 1, None], pa.uint16())),
    _column("uint32", pa.array([2**32 - 1, None], pa.uint32())),
    _column("uint64", pa.array([2**64 - 1, None], pa.uint64())),
    _column("float16", pa.array([1.5, None], pa.float16())),
    _column("float32", pa.array([1.5, None], pa.float32())),
    _column("float64", pa.array([float("nan"), -0.0, 1e300, None])),
    _column("decimal128(38, 10)", pa.array([Decimal("-0.0000000001"), None], pa.decimal128(38, 10))),
    _column("decimal256(50, 0)", pa.array([Decimal(10) ** 45, None], pa.decimal256(50, 0))),
    _column("string", pa.array(["ünïcode", "", None])),
    _column("binary", pa.array([b"\0\xff", None])),
    _column("fixed_size_binary(3)", pa.array([b"abc", None], pa.binary(3))),
    _column("date32", pa.array([-1, None], pa.date32())),
    _column("time64(us)", pa.array([time(23, 59), None], pa.time64("us"))),
    _column("duration(us)", pa.array([timedelta(hours=1), None], pa.duration("us"))),
    _column("timestamp(ms, UTC)", pa.array([1, None], pa.timestamp("ms", "UTC"))),
    _column("timestamp(us, UTC)", pa.array([-1, None], pa.timestamp("us", "UTC"))),
    _column("timestamp(us)", pa.array([-1, None], pa.timestamp("us"))),
    _column("timestamp(ns, UTC)", pa.array([1, None], pa.timestamp("ns", "UTC"))),
    _column("list(int32)", pa.array([[1, None], []], pa.list_(pa.int32()))),
    _column("struct(a: int64)", pa.array([{"a": 1}, {"a": None}], pa.struct([("a", pa.int64())]))),
    _column("map(string, int32)", pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32()))),
    _column("map(int32, string)", pa.array([[(1, "k")], []], pa.map_(pa.int32(), pa.string()))),
    _column("dictionary(string)", pa.array(["x", None]).dictionary_encode()),
)


def survives(feature: Feature, format_: PublishedFormat, place: Path) -> gl.TimeSeriesTable | gl.GaplessError:
    """The table that has the feature and is published whole; the error that refused it where it cannot be."""
    return published_whole(feature, format_, lambda: made(place, feature.first, format_))


def published_whole(feature: Feature, format_: PublishedFormat, make: Callable[[], Table]) -> Table | gl.GaplessError:
    """What `make` makes, changed as the feature says, where all of it is published then; the error that refused it where it cannot be."""
    try:
        table = make()
        if feature.change is not None:
            feature.change(table)
    except (gl.CallError, gl.DataError) as error:
        return error
    (publication,) = table.publications()
    if publication.behind:
        raise AssertionError(f"{feature.name}: {format_} is behind: {publication.why}")
    return table


def features_tables(
    features: Sequence[Feature],
    formats: Sequence[PublishedFormat],
    survives: Callable[[Feature, PublishedFormat, Path], Any],
    place: Path,
) -> Iterator[str]:
    """A table for each group of features, and why some of them are refused; `place` is an empty folder, where each is tried."""
    titles = [name.capitalize() for name in formats]
    refused: list[str] = []
    for group in dict.fromkeys(feature.group for feature in features):
        lines = [f"| {group} | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
        for number, feature in enumerate(features):
            if feature.group != group:
                continue
            found = {name: survives(feature, name, place / str(number) / name) for name in formats}
            errors = {name: one for name, one in found.items() if isinstance(one, gl.GaplessError)}
            cells = ["refused" if name in errors else "yes" for name in formats]
            lines.append(f"| {feature.name} | {' | '.join(cells)} |")
            reasons: dict[str, list[str]] = {}
            for name, one in errors.items():
                reasons.setdefault(f"{one.why}. {one.fix}", []).append(name.capitalize())
            refused += [f"- {feature.name}, {' and '.join(names)}: {said}." for said, names in reasons.items()]
        yield "\n".join(lines)
    yield "## Why, and what to do instead"
    yield "\n".join(refused)


def features_page(place: Path) -> Iterator[str]:
    """The parts of docs/reference/publishing.md on time-series tables; `place` is an empty folder."""
    yield from features_tables(FEATURES, PUBLISHED_FORMATS, survives, place)
