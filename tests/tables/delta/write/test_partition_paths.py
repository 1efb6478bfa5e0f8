"""Paths of partitioned files: what others make of ours, and we of theirs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import InvalidValue, UnsupportedTable
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted_table
from support.delta_tables import made, rows_of
from support.theirs import adds, log_lines, their_rows

ODD = [
    "é/ü",
    "100%",
    "a b",
    "a=b",
    "%2F",
    "x:y",
    "💡",
    "~t",
    "a.",
    "'q'",
    "+",
    "(x)",
    "@",
    "null",
    "..",
    "CON",
    "x\\y",
    "<>",
    "a\nb",
]


def _odd(*, times: int = 2) -> pa.Table:
    return pa.table({"p": ODD * times, "n": list(range(times * len(ODD)))})


def _twice_named(path: Path, versions: int) -> list[str]:
    """The paths in `remove` that are no `add`'s, byte for byte."""
    lines = [line for version in range(versions) for line in log_lines(path, version)]
    added = {line["add"]["path"] for line in lines if "add" in line}
    return [line["remove"]["path"] for line in lines if "remove" in line and line["remove"]["path"] not in added]


def test_what_deltalake_rewrites_of_ours_is_there_once(tmp_path: Path) -> None:
    """It encodes a path anew when it removes a file; ours are such that this changes nothing."""
    table = made(tmp_path / "t", _odd(), partition_by=("p",))
    left = _odd().slice(len(ODD))
    DeltaLakeTable(str(tmp_path / "t")).delete(f"n < {len(ODD)}")
    table = DeltaTable.open(tmp_path / "t")
    assert rows_of(table) == counted_table(left) == their_rows(tmp_path / "t")
    assert _twice_named(tmp_path / "t", 3) == []
    DeltaLakeTable(str(tmp_path / "t")).optimize.compact()
    table = DeltaTable.open(tmp_path / "t")
    table.delete("n % 2 = 0")
    kept = counted_table(left.filter([number % 2 == 1 for number in left["n"].to_pylist()]))
    assert rows_of(table) == their_rows(tmp_path / "t") == kept
    assert _twice_named(tmp_path / "t", table.version + 1) == []


def test_path_13_delta_a_value_longer_than_a_file_name(tmp_path: Path) -> None:
    """deltalake reads it, but has no name for its own files there."""
    rows = pa.table({"p": ["x" * 300, "x" * 299 + "y", "é" * 100], "n": [1, 2, 3]})
    table = made(tmp_path / "t", rows, partition_by=("p",))
    assert rows_of(table) == their_rows(tmp_path / "t") == counted_table(rows)
    assert table.scan(where=f"p = '{'x' * 300}'").to_arrow()["n"].to_pylist() == [1]


def test_what_we_rewrite_of_deltalakes_is_there_once(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), _odd(), partition_by=["p"])
    table = DeltaTable.open(tmp_path / "t")
    assert rows_of(table) == counted_table(_odd())
    table.delete(f"n < {len(ODD)}")
    assert rows_of(table) == their_rows(tmp_path / "t") == counted_table(_odd().slice(len(ODD)))
    assert _twice_named(tmp_path / "t", 2) == []


def test_a_remove_that_spells_the_path_otherwise_removes_it(tmp_path: Path) -> None:
    """As deltalake leaves a table of Spark's; readers that match the text see the rows twice."""
    made(tmp_path / "t", pa.table({"p": ["ü"], "n": [1]}), partition_by=("p",))
    (add,) = adds(tmp_path / "t", 1)
    raw = add["path"].replace("%25C3%25BC", "%25C3%25%42%43")
    log = tmp_path / "t" / "_delta_log"
    line = {"remove": {"path": raw, "deletionTimestamp": 1, "dataChange": True}}
    (log / f"{2:020}.json").write_text(json.dumps(line))
    assert DeltaTable.open(tmp_path / "t").count() == 0


@pytest.mark.parametrize("path", ["p=1\\part.parquet", "C:/t/part.parquet"])
def test_path_05_delta_vacuum_takes_nothing_where_paths_are_those_of_windows(path: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.table({"p": ["1"], "n": [1]}), partition_by=("p",))
    add = {"path": path, "partitionValues": {"p": "1"}, "size": 1, "modificationTime": 1, "dataChange": True}
    (tmp_path / "t" / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"add": add}))
    lost = tmp_path / "t" / "p=1" / "part.parquet"
    lost.write_bytes(b"x")
    os.utime(lost, (1, 1))
    table.refresh()
    for dry_run in (True, False):
        with pytest.raises(UnsupportedTable, match="by a path of Windows"):
            table.vacuum(dry_run=dry_run)
    with pytest.raises(UnsupportedTable, match="by a path of Windows"):
        table.scan().to_arrow()
    assert lost.exists()


def test_path_13_delta_bytes_as_deltalake_spells_them(tmp_path: Path) -> None:
    rows = pa.table({"p": pa.array([b"\x00\xff", b"abc", None, b"\x01"]), "n": [1, 2, 3, 4]})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    assert rows_of(DeltaTable.open(tmp_path / "t")) == counted_table(rows)


@pytest.mark.parametrize("value", [b"\xff", b"", b"\\u0041"])
def test_path_13_delta_bytes_that_no_reader_would_take_back_are_refused(value: bytes, tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.table({"p": [b"fine"], "n": [1]}), partition_by=("p",))
    with pytest.raises(InvalidValue, match="partition column 'p'"):
        table.append(pa.table({"p": [b"fine", value], "n": [2, 3]}))
    assert (table.version, DeltaTable.open(tmp_path / "t").count()) == (1, 1)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)


@given(st.lists(texts, min_size=1, max_size=3))
@settings(max_examples=15)
def test_path_13_delta_any_text_is_a_partition(tmp_path_factory: pytest.TempPathFactory, values: list[str]) -> None:
    path = tmp_path_factory.mktemp("any")
    rows = pa.table({"p": values, "n": list(range(len(values)))})
    made(path, rows, partition_by=("p",))
    assert rows_of(DeltaTable.open(path)) == their_rows(path) == counted_table(rows)
    DeltaLakeTable(str(path)).delete("n = 0")
    assert rows_of(DeltaTable.open(path)) == their_rows(path) == counted_table(rows.slice(1))
