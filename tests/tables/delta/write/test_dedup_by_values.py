"""Of rows with equal keys the latest or the earliest stays, by values of columns: held against the rule, written down plainly."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import cmp_to_key
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, UnknownColumn, UnsupportedType
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write import dedup
from gapless.tables.delta.write.dedup import Dedup
from support.delta_tables import WAYS, made, replayed, rows_of

NAN = float("nan")
UTC = dt.UTC
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [2**53, 2**53 + 1, -(2**63), 2**63 - 1, 0, None]),
    "double": (pa.float64(), [0.0, -0.0, NAN, -math.inf, math.inf, 1.5, None]),
    "decimal": (pa.decimal128(38, 2), [Decimal("99999999999999999999999999999999999.98"), Decimal("99999999999999999999999999999999999.99"), Decimal("-0.01"), None]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=n) for n in (0, 1, -1)] + [None]),
    "text": (pa.string(), ["", "a", "é", "😈", "z", "a" * 40, "a" * 40 + "b", None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), None]),
}  # fmt: skip


def compared(one: Any, other: Any) -> int:
    """Two values that are not null: NaN above all, texts by their UTF-8, zeros equal."""
    nans = [isinstance(value, float) and math.isnan(value) for value in (one, other)]
    if any(nans):
        return int(nans[0]) - int(nans[1])
    one, other = (value.encode() if isinstance(value, str) else value for value in (one, other))
    return int(one > other) - int(one < other)


def better(one: Mapping[str, Any], other: Mapping[str, Any], order: tuple[str, ...], keep: str) -> int:
    """Above 0 where the row `one` is preferred to `other`, which comes after it."""
    sign = 1 if keep == "latest" else -1
    for name in order:
        a, b = one[name], other[name]
        if a is None or b is None:
            if a is not b:
                return 1 if b is None else -1
        elif found := compared(a, b):
            return sign * found
    return sign * compared(one["n"], other["n"])


def survivors(rows: list[dict[str, Any]], keys: tuple[str, ...], order: tuple[str, ...], keep: str) -> list[int]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in keys), []).append(row)

    def preferred(a: dict[str, Any], b: dict[str, Any]) -> int:
        return better(a, b, order, keep)

    return sorted(max(group, key=cmp_to_key(preferred))["n"] for group in groups.values())


def numbers(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow().column("n").to_pylist())


def drawn(seed: int, names: list[str], files: int = 3) -> list[pa.Table]:
    """Tables of rows with few keys and values that are hard to order; `n` numbers the rows in the order they are written."""
    draw, first, tables = Random(seed), 0, []
    for _ in range(files):
        size = draw.randint(0, 12)
        columns: dict[str, Any] = {
            "id": pa.array([draw.choice([1, 2, 3, None]) for _ in range(size)], pa.int64()),
            "day": pa.array([draw.choice("ab") for _ in range(size)], pa.string()),
            "n": pa.array(range(first, first + size), pa.int64()),
        }
        for name in names:
            type_, values = TYPES[name]
            columns[name] = pa.array([draw.choice(values) for _ in range(size)], type_)
        tables.append(pa.table(columns))
        first += size
    return tables


@pytest.mark.parametrize("keep", ["latest", "earliest"])
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("seed", range(3))
def test_random_rows(tmp_path: Path, way: str, keep: Any, seed: int) -> None:
    draw = Random(f"{way} {keep} {seed}")
    properties, partition_by = WAYS[way]
    order = tuple(draw.sample(list(TYPES), draw.randint(1, 3)))
    keys = draw.choice([("id",), ("id", "day"), ("day",)])
    tables = drawn(draw.randint(0, 10**6), list(order))
    table = made(tmp_path, tables[0], properties, partition_by)
    for one in tables[1:]:
        table.append(one)
    rows = [row for one in tables for row in one.to_pylist()]
    # A partition's rows are files of their own, in the order of their days.
    placed = table.scan(columns=["n"]).to_arrow()["n"].to_pylist() if partition_by else None
    if placed is not None:
        rank = {number: at for at, number in enumerate(placed)}
        moved = survivors([{**row, "n": rank[row["n"]]} for row in rows], keys, order, keep)
        wanted = sorted(placed[at] for at in moved)
    else:
        wanted = survivors(rows, keys, order, keep)
    report = table.dedup(keys, order_by=order, keep=keep)
    assert numbers(table) == wanted
    assert report.removed_rows == len(rows) - len(wanted)
    version = table.version
    assert table.dedup(keys, order_by=order, keep=keep).removed_rows == 0
    assert table.refresh().version == version
    if "delta.enableChangeDataFeed" in properties:
        assert replayed(table) == rows_of(table)


@pytest.mark.parametrize("name", list(TYPES))
@pytest.mark.parametrize("keep", ["latest", "earliest"])
def test_each_type_of_values(tmp_path: Path, name: str, keep: Any) -> None:
    type_, values = TYPES[name]
    for rotation in range(2):
        turned = values[rotation:] + values[:rotation]
        rows = [{"id": 1, name: value, "n": at} for at, value in enumerate(turned)]
        table = made(
            tmp_path / str(rotation),
            pa.table({"id": [1] * len(turned), name: pa.array(turned, type_), "n": range(len(turned))}),
        )
        table.dedup("id", order_by=name, keep=keep)
        assert numbers(table) == survivors(rows, ("id",), (name,), keep)


def test_the_latest_is_what_stays_where_nothing_is_said(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, 1, 1], "at": [2, 3, 1], "n": [0, 1, 2]}))
    report = table.dedup("ID", order_by="At")
    assert numbers(table) == [1]
    assert report.removed_rows == 2
    log = (tmp_path / "_delta_log" / f"{table.version:020}.json").read_text()
    told = next(json.loads(line)["commitInfo"] for line in log.splitlines() if "commitInfo" in line)
    assert told["operation"] == "DEDUP"
    assert json.loads(told["operationParameters"]["orderBy"]) == ["At"]


def test_rows_with_equal_values_go_by_their_place(tmp_path: Path) -> None:
    for keep, wanted in (("latest", [4]), ("earliest", [0])):
        table = made(tmp_path / keep, pa.table({"id": [1], "at": [7], "n": [0]}))
        for number in range(1, 5):
            table.append(pa.table({"id": [1], "at": [7], "n": [number]}))
        assert table.dedup("id", order_by="at", keep=keep).removed_rows == 4  # type: ignore[arg-type]
        assert numbers(table) == wanted


def test_keys_taken_part_by_part_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "PASS_ROWS", 2)
    (rows,) = drawn(5, ["double"], files=1)
    table = made(tmp_path, rows)
    table.dedup("id", order_by="double")
    assert numbers(table) == survivors(rows.to_pylist(), ("id",), ("double",), "latest")


def test_what_comes_meanwhile_is_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer's row, later than all, lands while the change is decided: it is decided again."""
    made(tmp_path / "t", pa.table({"id": [1, 1], "at": [1, 2], "n": [0, 1]}))
    table, others, decide = DeltaTable.open(tmp_path / "t"), [DeltaTable.open(tmp_path / "t")], Dedup.decide

    def decided(self: Dedup, before: Any) -> Any:
        if others:
            others.pop().append({"id": [1], "at": [9], "n": [2]})
        return decide(self, before)

    monkeypatch.setattr(Dedup, "decide", decided)
    assert table.dedup("id", order_by="at").removed_rows in (1, 2)
    table.dedup("id", order_by="at")
    assert numbers(table) == [2]


def test_an_operation_is_applied_once(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, 1], "at": [1, 2], "n": [0, 1]}))
    first = table.dedup("id", order_by="at", operation_id="nightly")
    table.append({"id": [1], "at": [3], "n": [2]})
    again = table.dedup("id", order_by="at", operation_id="nightly")
    assert (again.already_applied, again.version, again.removed_rows) == (True, first.version, 1)
    assert numbers(table) == [1, 2]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"keep": "latest"}, InvalidOption, "without order_by"),
        ({"keep": "first", "order_by": "at"}, InvalidOption, "with order_by"),
        ({"keep": "newest", "order_by": "at"}, InvalidOption, "newest"),
        ({"order_by": []}, InvalidOption, "names no column"),
        ({"order_by": "att"}, UnknownColumn, "order_by='att' names"),
        ({"order_by": "tags"}, UnsupportedType, "which row is the latest"),
    ],
    ids=["latest of nothing", "first by values", "unknown", "no column", "unknown column", "no order"],
)
def test_what_is_refused(tmp_path: Path, options: Any, error: type[Exception], says: str) -> None:
    table = made(tmp_path, pa.table({"id": [1, 1], "at": [1, 2], "tags": [["a"], ["b"]]}))
    version = table.version
    with pytest.raises(error, match=says):
        table.dedup("id", **options)
    assert gl.delta.open(tmp_path).version == version
