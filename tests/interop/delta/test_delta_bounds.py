"""Files of which not every column has bounds: no reader loses a row of theirs by a condition."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from interop.delta.engines import RELEASES, Ask

NAN, NAN_AT = float("nan"), 4
FILES = [
    pa.table({"id": [1, 2], "x": [1.0, 2.0], "s": ["a", "b"], "d": [{"y": 1.0}, None]}),
    pa.table({"id": [3, 4, 5], "x": [3.0, NAN, None], "s": ["c", "d", None], "d": [{"y": NAN}, None, {"y": 2.0}]}),
    pa.table({"id": [6], "x": pa.array([None], pa.float64()), "s": ["\U0010ffff" * 40], "d": [{"y": None}]}),
]
CONDITIONS: list[tuple[str, str, Any]] = [
    *((column, act, value) for column, value in (("id", 3), ("x", 3.0), ("s", "c")) for act in ("=", "<>", "<", ">")),
    *((column, act, None) for column in ("id", "x", "s", "d") for act in ("is null", "is not null")),
]
HOLDS: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, ">": operator.gt}


def wanted(column: str, act: str, value: Any) -> list[int]:
    """The ids of the rows that a condition holds for, but for the one with NaN where that is compared."""
    found = []
    for row in (row for file in FILES for row in file.to_pylist()):
        there = NAN if row["id"] == NAN_AT and column == "x" else row[column]
        holds = there not in (None, NAN) and HOLDS[act](there, value) if act in HOLDS else (there is None) is (act == "is null")
        found += [row["id"]] if holds else []
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bounds") / "t"
    made = gl.delta.create(path, FILES[0].schema)
    for file in FILES:
        made.append(file)
    return path


def ids(found: pa.Table, column: str, act: str) -> list[int]:
    """Those found; where NaN is compared readers differ, and go by the bounds that Parquet has, too."""
    return sorted(set(found["id"].to_pylist()) - ({NAN_AT} if column == "x" and act in HOLDS else set()))


@pytest.mark.parametrize("release", RELEASES)
def test_datasets_of_deltalake_lose_none(engine: Ask, table: Path, release: str) -> None:
    for column, act, value in CONDITIONS:
        found = engine(f"deltalake-{release}").do("dataset", path=str(table), column=column, comparison=act, value=value)
        assert ids(found, column, act) == wanted(column, act, value), (column, act)


@pytest.mark.parametrize("reader", ["gapless", "deltalake-1.6.6", "duckdb-1.5.5", "polars", "spark"])
def test_conditions_lose_none(engine: Ask, table: Path, reader: str) -> None:
    for column, act, value in CONDITIONS if reader != "spark" else CONDITIONS[4:12:2] + CONDITIONS[-2:]:
        if column == "d" and reader in ("deltalake-1.6.6", "polars"):
            continue  # they have no such comparison of structs
        where = f"{column} {act}" + ("" if value is None else f" {value!r}")
        found = (
            gl.delta.open(table).scan(where=where).to_arrow()
            if reader == "gapless"
            else engine(reader).read(table, where=where)
        )
        assert ids(found, column, act) == wanted(column, act, value), where


def test_what_is_not_said_to_others_still_spares_a_read(table: Path) -> None:
    said = [json.loads(file.action.stats or "") for file in gl.delta.open(table).files()]
    assert ["minValues" in one for one in said] == [True, False, False]
    (last,) = gl.delta.open(table).scan(where="id > 5").files()
    assert last.rows == 1
