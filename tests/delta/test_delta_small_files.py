"""Many small files on a disk are read several in one go: the same rows in the same order, and errors where they belong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CorruptTable
from gapless.parquet.delta import sets
from gapless.table.delta.table import DeltaTable

FILES = 40


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    made = gl.delta.create(str(tmp_path / "t"), pa.schema([("x", pa.int64())]))
    for at in range(FILES):
        made.append(pa.table({"x": [2 * at, 2 * at + 1]}))
    return made


@pytest.mark.parametrize("held", [0, 24, sets.SET_BYTES])
def test_rows_come_in_order_however_little_is_held(table: DeltaTable, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "SET_BYTES", held)
    assert table.scan().to_arrow()["x"].to_pylist() == list(range(2 * FILES))
    assert table.scan(where="x % 2 = 1").to_arrow()["x"].to_pylist() == list(range(1, 2 * FILES, 2))


def test_a_missing_file_is_told_after_the_rows_before_it(table: DeltaTable, tmp_path: Path) -> None:
    lost = table.files()[20].path
    (tmp_path / "t" / lost).unlink()
    rows: list[int] = []

    def read() -> None:
        for batch in table.scan().to_batches():
            rows.extend(batch["x"].to_pylist())

    with pytest.raises(CorruptTable, match=lost):
        read()
    assert rows == list(range(40))
