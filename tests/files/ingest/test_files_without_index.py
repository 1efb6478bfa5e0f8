"""Files for tables that have no index column, as Delta tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from gapless.errors import InvalidOption
from gapless.files.ingest.files import open_files


def table_of(path: Path, schema: pa.Schema | None = None) -> pa.Table:
    batches = open_files([path], index=None, schema=schema)[0]
    return pa.Table.from_batches(list(batches), batches.schema)


def test_csv_columns_are_typed_by_all_their_values(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,at,word\n1,2026-01-05T00:00:00Z,a\n2.5,2026-01-06T00:00:00Z,\n", encoding="utf-8")
    table = table_of(path)
    assert [str(field.type) for field in table.schema] == ["double", "timestamp[us, tz=UTC]", "string"]
    assert table.to_pylist()[0] == {"n": 1.0, "at": datetime(2026, 1, 5, tzinfo=UTC), "word": "a"}


def test_no_column_needs_to_be_there_and_none_is_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1;2\n", encoding="utf-8")
    assert table_of(path).to_pylist() == [{"a;b": "1;2"}]


def test_columns_are_read_as_the_table_has_them(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.string()), ("at", pa.timestamp("us"))])
    for name, text in (("a.csv", "n,at\n007,2026-01-05\n"), ("a.jsonl", '{"n": "007", "at": "2026-01-05T00:00"}\n')):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert table_of(tmp_path / name, schema).to_pylist() == [{"n": "007", "at": datetime(2026, 1, 5)}]


def test_numbers_are_no_times_without_a_unit(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.timestamp("us"))])
    (tmp_path / "a.csv").write_text("at\n1767600000\n", encoding="utf-8")
    with pytest.raises(InvalidOption, match="timestamp_unit"):
        table_of(tmp_path / "a.csv", schema)
