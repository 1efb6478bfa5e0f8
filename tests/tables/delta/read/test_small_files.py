"""Many small files on a disk are read several in one go: the same rows in the same order, and errors where they belong."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import CorruptTable
from gapless.tables.delta.files import reading
from gapless.tables.delta.files.open_file import ReadRequest
from gapless.tables.delta.table import DeltaTable

FILES = 40


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    made = gl.delta.create(str(tmp_path / "t"), pa.schema([("x", pa.int64())]))
    for at in range(FILES):
        made.append(pa.table({"x": [2 * at, 2 * at + 1]}))
    return made


@pytest.mark.parametrize("held", [0, 24, reading.SET_BYTES])
def test_rows_come_in_order_however_little_is_held(table: DeltaTable, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SET_BYTES", held)
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


@pytest.mark.parametrize(("most", "stored"), [(1, 1 << 20), (3, 1 << 20), (64, 1), (64, 1_000), (1_000, 1 << 30)])
def test_rows_come_in_order_however_large_sets_are(
    table: DeltaTable, most: int, stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SET_FILES", most)
    monkeypatch.setattr(reading, "SET_STORED_BYTES", stored)
    assert table.scan().to_arrow()["x"].to_pylist() == list(range(2 * FILES))
    assert table.scan(where="x >= 11").to_arrow()["x"].to_pylist() == list(range(11, 2 * FILES))


@pytest.mark.parametrize(("few", "ahead"), [(reading.FEW_FILES, True), (FILES, False)])
def test_a_set_is_fetched_while_the_one_before_is_worked_on(
    table: DeltaTable, few: int, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    here = threading.Event()

    def fetch(asked: ReadRequest) -> bytes | None:
        fetched.append(asked.file.path)
        if len(fetched) > 1:
            here.set()
        return real(asked)

    real = ReadRequest.fetched
    monkeypatch.setattr(ReadRequest, "fetched", fetch)
    monkeypatch.setattr(reading, "FEW_FILES", few)
    batches = table.scan().to_batches()
    assert next(batches)["x"].to_pylist() == [0, 1]
    assert here.wait(20 if ahead else 0.05) is ahead
    assert [row for batch in batches for row in batch["x"].to_pylist()] == list(range(2, 2 * FILES))
    assert fetched == [file.path for file in table.files()], "each once, in order"


def _spoil(table: DeltaTable, root: Path, at: int, how: str) -> str:
    """Damage a file; what its error says of it."""
    path = table.files()[at].path
    file = root / path
    data = bytearray(file.read_bytes())
    if how == "page":
        chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
        end = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
        data[end - 1] ^= 0xFF
    else:
        data[-6] ^= 0xFF
    file.write_bytes(bytes(data))
    return path


@pytest.mark.parametrize("few", [0, 1 << 30])
@pytest.mark.parametrize("held", [0, reading.SET_BYTES])
@pytest.mark.parametrize(("first", "second"), [("page", "footer"), ("footer", "page"), ("page", "page"), ("footer", "footer")])
def test_of_two_damaged_files_the_first_is_told_after_the_rows_before_it(
    table: DeltaTable, tmp_path: Path, first: str, second: str, held: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SET_BYTES", held)
    monkeypatch.setattr(reading, "FEW_FILES", few)
    named = _spoil(table, tmp_path / "t", 17, first)
    _spoil(table, tmp_path / "t", 19, second)
    rows: list[int] = []

    def read() -> None:
        for batch in table.scan().to_batches():
            rows.extend(batch["x"].to_pylist())

    with pytest.raises(CorruptTable, match=named):
        read()
    assert rows == list(range(34))
