"""Reducing rows with equal keys to one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import InvalidOption, UnknownColumn
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write import dedup
from support.delta_tables import WAYS, made, replayed, rows_of

NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 1, None, 3, None, 2], pa.int64()),
        "x": pa.array([0.0, NAN, -0.0, None, 1.0, None, NAN]),
        "n": pa.array(range(7), pa.int64()),
        "day": ["a", "b", "a", "a", "b", "a", "b"],
    }
)


def numbers(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow().column("n").to_pylist())


@pytest.mark.parametrize(("properties", "partition_by"), list(WAYS.values()), ids=list(WAYS))
@pytest.mark.parametrize(
    ("keys", "keep", "kept"),
    [
        ("id", "first", [0, 1, 3, 4]),
        (["id", "x"], "first", [0, 1, 3, 4]),
        (["id", "day"], "last", [2, 4, 5, 6]),
        ("ID", "last", [2, 4, 5, 6]),
        (["id", "n"], "first", list(range(7))),
        ("day", "first", [0, 1]),
    ],
)
def test_one_row_of_each_key_stays(
    tmp_path: Path, properties: Mapping[str, str], partition_by: tuple[str, ...], keys: Any, keep: Any, kept: list[int]
) -> None:
    table = made(tmp_path, ROWS, properties, partition_by)
    report = table.dedup(keys, keep=keep)
    assert numbers(table) == kept
    assert report.removed_rows == 7 - len(kept)
    version = table.version
    assert version == (1 if len(kept) == 7 else 2)
    assert table.dedup(keys, keep=keep).removed_rows == 0
    assert table.refresh().version == version, "a second run commits nothing"
    if "delta.enableChangeDataFeed" in properties:
        assert replayed(table) == rows_of(table)


def test_the_order_in_which_files_came_is_the_order_of_rows(tmp_path: Path) -> None:
    for keep, wanted in (("first", [0]), ("last", [5])):
        table = made(tmp_path / keep, pa.table({"id": [1], "n": [0]}))
        for number in range(1, 6):
            table.append(pa.table({"id": [1], "n": [number]}))
        assert table.dedup("id", keep=keep).removed_rows == 5  # type: ignore[arg-type]
        assert numbers(table) == wanted


def test_without_keys_only_repeated_rows_go(tmp_path: Path) -> None:
    nested = pa.array([{"a": [1, None]}, {"a": [1, None]}, {"a": [None, 1]}, None, None])
    table = made(tmp_path, pa.table({"s": nested, "x": [NAN, NAN, 1.0, 2.0, 2.0]}))
    assert table.dedup().removed_rows == 2
    assert table.count() == 3
    assert table.dedup().removed_rows == 0


def test_only_files_that_lose_a_row_are_written_anew(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, 2]}))
    table.append(pa.table({"id": [3, 4]}))
    table.append(pa.table({"id": [4, 5]}))
    before = [file.path for file in table.files()]
    assert table.dedup("id").removed_segments == 1
    assert {file.path for file in table.files()} >= set(before[:2])


def test_bad_keys_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    with pytest.raises(UnknownColumn, match="keys='nope' names"):
        table.dedup("nope")
    with pytest.raises(InvalidOption, match="keep"):
        table.dedup("id", keep="newest")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        table.dedup([])


def test_keys_taken_part_by_part_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "PASS_ROWS", 2)
    for number, (keys, kept) in enumerate(((["id"], [0, 1, 3, 4]), (["x"], [0, 1, 3, 4]), (["id", "x"], [0, 1, 3, 4]))):
        table = made(tmp_path / str(number), ROWS)
        table.dedup(keys)
        assert numbers(table) == kept


def test_the_two_zeros_are_one_key_in_two_partitions(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"x": [0.0, -0.0, 1.0], "n": [1, 1, 1]}), partition_by=("x",))
    assert table.dedup().removed_rows == 1
    assert rows_of(table).total() == 2


def test_a_partition_is_one_whoever_wrote_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.table({"x": [1.0], "n": [1]}), partition_by=("x",))
    table.append({"x": [1.0], "n": [1]})
    log = tmp_path / "t" / "_delta_log" / f"{2:020}.json"
    assert '"x":"1"' in log.read_text()
    log.write_text(log.read_text().replace('"x":"1"', '"x":"1.0"'))
    assert DeltaTable.open(tmp_path / "t").dedup(["x", "n"]).removed_rows == 1
