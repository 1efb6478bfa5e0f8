"""Rows as documents and files: whole or not at all, and the same rows when they are read again."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.cli.read import Output
from gapless.cli.show.rows import first_rows, print_rows, write_csv, write_json_array, write_json_lines
from gapless.errors import CorruptTable, InvalidOption, InvalidPath
from gapless.tables.shared.scan import Rows
from gapless.tables.timeseries.table import TimeSeriesTable

TABLE = pa.table(
    {"ts": pa.array([0, 3_600], pa.timestamp("s", "UTC")), "name": ['a"b,c', None], "text": ["", " x"], "n": [1, None]}
)


def _rows(table: pa.Table, *, broken: bool = False) -> Rows:
    def read() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()
        if broken:
            raise CorruptTable("segment data/x.parquet cannot be read", path="data/x.parquet")

    return Rows(table.schema, read)


def _output(file: Path | None = None, limit: int | None = None, *, as_json: bool = False) -> Output:
    return Output(json=as_json, csv=False, file=None if file is None else str(file), limit=limit)


def test_csv_tells_null_from_the_empty_text() -> None:
    sink = io.BytesIO()
    write_csv(iter(TABLE.to_batches()), TABLE.schema, sink)
    assert sink.getvalue().decode() == ('ts,name,text,n\n1970-01-01T00:00:00Z,"a""b,c","",1\n1970-01-01T01:00:00Z,," x",\n')


def test_csv_reads_back_as_the_same_rows(tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("wb") as sink:
        write_csv(iter(TABLE.to_batches()), TABLE.schema, sink)
    again = TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1h", schema=TABLE.schema)
    again.append_file(tmp_path / "rows.csv")
    assert again.scan().to_arrow().to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_json_is_one_array_or_one_object_a_line(count: int) -> None:
    part = TABLE.slice(0, count)
    whole, lines = io.BytesIO(), io.BytesIO()
    write_json_array(iter(part.to_batches()), part.schema, whole)
    write_json_lines(iter(part.to_batches()), part.schema, lines)
    rows = json.loads(whole.getvalue())
    assert len(rows) == count
    assert [json.loads(line) for line in lines.getvalue().splitlines()] == rows


def test_json_refuses_two_columns_of_one_name() -> None:
    with pytest.raises(InvalidOption, match="two columns are named 'a'"):
        write_json_array(iter([]), pa.schema([("a", pa.int8()), ("a", pa.int8())]), io.BytesIO())


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json", "jsonl"])
def test_a_file_is_replaced_whole_or_stays(tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"out.{suffix}"
    file.write_text("before")
    with pytest.raises(CorruptTable):
        _output(file).emit(_rows(TABLE, broken=True))
    assert file.read_text() == "before"
    _output(file, limit=1).emit(_rows(TABLE))
    assert capfd.readouterr().out.endswith(f"out.{suffix}: 1 row\n")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    if suffix == "parquet":
        assert pq.read_table(file).to_pylist() == TABLE.to_pylist()[:1]


def test_json_on_stdout_is_whole_or_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CorruptTable):
        _output(as_json=True).emit(_rows(TABLE, broken=True))
    assert capfd.readouterr().out == ""


def test_outputs_exclude_each_other() -> None:
    with pytest.raises(InvalidOption, match="exclude each other"):
        Output(json=True, csv=False, file="x.csv", limit=None)
    with pytest.raises(InvalidOption, match="does not say its format"):
        _output(Path("x.xls"))


def test_an_output_in_no_directory_is_a_wrong_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidPath, match="No such file or directory"):
        _output(tmp_path / "none" / "x.csv").emit(_rows(TABLE))


def test_first_rows_stop_reading() -> None:
    batches = iter(pa.table({"n": list(range(10))}).to_batches(max_chunksize=3))
    assert [batch.num_rows for batch in first_rows(batches, 4)] == [3, 1]
    assert next(batches).column(0).to_pylist() == [6, 7, 8]
    assert list(first_rows(batches, 0)) == []


def test_a_printed_table_says_that_there_is_more(capfd: pytest.CaptureFixture[str]) -> None:
    print_rows(_rows(TABLE), 1)
    assert "\n1 row shown; there are more: --limit N" in capfd.readouterr().out
    print_rows(_rows(TABLE), 2)
    out = capfd.readouterr().out
    assert out.endswith("\n2 rows\n")
    assert "null" in out


def test_a_printed_table_without_columns_has_no_rows(capfd: pytest.CaptureFixture[str]) -> None:
    print_rows(Rows(pa.schema([]), lambda: iter(())), 40)
    assert capfd.readouterr().out == "0 rows\n"


def test_data_cannot_move_the_cursor(capfd: pytest.CaptureFixture[str]) -> None:
    print_rows(_rows(pa.table({"a\x1b": ["\x1b[2J\n[red]"]})), 5)
    out = capfd.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2J\\n[red]" in out
