"""Delta's own test tables: each reads as it should, or is refused for what is broken in it."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from deltalake import QueryBuilder

from gapless.errors import CorruptTable, GaplessError, LogWarning, TableNotFound, UnsupportedTable
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.handle import open_environment
from support.delta_rows import counted, counted_table

GOLDEN = Path(__file__).resolve().parents[5] / "shared" / "golden" / "delta"

REFUSED: dict[str, tuple[type[GaplessError], str]] = {
    "data-reader-absolute-paths-escaped-chars": (CorruptTable, "metaData"),  # its commits have files and nothing else
    "deltalog-invalid-protocol-version": (UnsupportedTable, "version 99"),
    "deltalog-state-reconstruction-without-metadata": (CorruptTable, "metaData"),
    "hive": (TableNotFound, "no Delta table"),
    "no-delta-log-folder": (TableNotFound, "no Delta table"),
    "versions-not-contiguous": (CorruptTable, "version 1 "),
}
"""Tables that cannot be opened, and why."""

WITHOUT_DATA: dict[str, list[str]] = {
    "canonicalized-paths-normal-b": [],  # `file:///some/…` is removed as `/some/…`, which is the same file
    "delete-re-add-same-file-different-transactions": ["bar", "foo"],
    "deltalog-commit-info": ["abc"],
    "deltalog-state-reconstruction-from-checkpoint-missing-metadata": [str(number) for number in range(11)],
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": [str(number) for number in range(11)],
    "log-replay-special-characters-b": ["special p@#h"],
}
"""Logs whose data files nobody kept, and the files that they name."""

OTHER_ZONE = {"data-reader-partition-values"}
"""Their expected rows come from a session west of Greenwich, whose clock partition texts without a zone were read on; for us that is UTC."""


def names() -> list[str]:
    return sorted(path.name for path in GOLDEN.iterdir()) if GOLDEN.is_dir() else []


@pytest.fixture(autouse=True)
def _here(shared: Path) -> None:
    """Skips where the golden tables are not."""


def opened(name: str) -> DeltaView:
    env = open_environment(GOLDEN / name / "delta", None)
    return DeltaView(env, name, open_table(env, str(GOLDEN / name / "delta")))


def expected(name: str) -> Counter[str]:
    """The rows as Delta's own suite says them; where it does not, as deltalake reads them."""
    files = sorted((GOLDEN / name / "expected").rglob("*.parquet"))
    if files:
        rows = [row for file in files for row in pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read().to_pylist()]
        return counted(rows)
    answer = QueryBuilder().register("t", DeltaLakeTable(str(GOLDEN / name / "delta"))).execute("select * from t")
    return counted_table(pa.table(answer))


def test_every_table_is_there(shared: Path) -> None:
    assert len(names()) == 69
    assert REFUSED.keys() | WITHOUT_DATA.keys() | OTHER_ZONE <= set(names())


@pytest.mark.parametrize("name", names())
def test_a_golden_table(name: str) -> None:
    if name in REFUSED:
        kind, why = REFUSED[name]
        with pytest.raises(kind) as refused:
            opened(name)
        assert why in str(refused.value)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)  # some log checkpoints are broken on purpose, and others serve
        table = opened(name)
    if name in WITHOUT_DATA:
        without_data(table, WITHOUT_DATA[name])
        return
    found = table.scan().to_arrow()
    found.validate(full=True)
    assert found.schema == table.schema
    assert table.count() == found.num_rows
    if all(file.rows is not None for file in table.files()):
        assert sum(file.rows or 0 for file in table.files()) == found.num_rows
    if name not in OTHER_ZONE:
        assert counted_table(found) == expected(name)


def without_data(table: DeltaView, paths: list[str]) -> None:
    assert sorted(file.path for file in table.files()) == sorted(paths)
    if paths:
        with pytest.raises(CorruptTable) as missing:
            table.scan().to_arrow()
        assert missing.value.path in paths
        assert "missing" in str(missing.value)
    else:
        assert table.scan().to_arrow().num_rows == 0
