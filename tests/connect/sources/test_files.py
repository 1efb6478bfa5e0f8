"""Files as they come: each row once, whatever comes late, is rewritten, or is not whole yet."""

from __future__ import annotations

import copy
import json
import os
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.connect import Cursor, source
from gapless.connect.sources.files import FileOptions, FileSource
from gapless.errors import (
    InvalidOption,
    InvalidPath,
    InvalidTime,
    InvalidValue,
    LogWarning,
    NotSupported,
    ObjectChanged,
    ObjectNotFound,
    SchemaMismatch,
    UnreadableInput,
)
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from support.pipelines import all_polled


def _write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(f'{{"v": {value}}}\n' for value in table["v"].to_pylist()))


WRITERS: Mapping[str, Callable[[pa.Table, Path], None]] = {
    "parquet": pq.write_table,
    "csv": pc.write_csv,
    "jsonl": _write_json,
}


def land(folder: Path, name: str, *values: int, age_s: float = 0, suffix: str = "parquet") -> Path:
    """A file that came whole, modified `age_s` seconds before a fixed time; its rows hold these values."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f".{uuid.uuid4().hex}"
    WRITERS[suffix](pa.table({"v": pa.array(values, pa.int64())}), written)
    modified = datetime(2026, 1, 5, tzinfo=UTC).timestamp() - age_s
    os.utime(written, (modified, modified))
    return written.rename(folder / f"{name}.{suffix}")


def values(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("v").to_pylist()]


drained = partial(all_polled, read=values)


def resumed(reader: Any, pattern: str, **options: Any) -> Any:
    """Another source, as in another process, at the cursor of this one."""
    other = source(f"files:{pattern}", **options)
    other.start(Cursor.from_json(reader.cursor.to_json()))
    return other


@pytest.mark.parametrize("limit", [1, 2, 4, None])
@pytest.mark.parametrize("suffix", WRITERS)
def test_rows_come_once_in_the_order_of_files(suffix: str, limit: int | None, tmp_path: Path) -> None:
    land(tmp_path, "b", 0, 1, 2, age_s=9, suffix=suffix)
    land(tmp_path, "a", 3, 4, age_s=8, suffix=suffix)
    reader = source(f"files:{tmp_path}/*.{suffix}")
    assert reader.schema == pa.schema([("v", pa.int64())])
    assert drained(reader, limit) == [0, 1, 2, 3, 4]
    assert reader.cursor.files_processed == 2
    assert reader.cursor.timestamp == datetime(2026, 1, 5, tzinfo=UTC) - timedelta(seconds=8)
    land(tmp_path, "c", 5, suffix=suffix)
    assert drained(reader, limit) == [5]
    assert drained(reader, limit) == []


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_cursor_goes_on_at_the_very_row(suffix: str, tmp_path: Path) -> None:
    land(tmp_path, "a", 0, 1, 2, age_s=9, suffix=suffix)
    land(tmp_path, "b", 3, 4, age_s=8, suffix=suffix)
    land(tmp_path, "c", 5, 6, 7, age_s=7, suffix=suffix)
    for taken in range(1, 9):
        first = source(f"files:{tmp_path}/*")
        begun = values(first.poll(taken))
        assert begun + drained(resumed(first, f"{tmp_path}/*"), 2) == list(range(8))


def test_a_file_with_many_row_groups_is_taken_up_within_one(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": range(5000)}), tmp_path / "a.parquet", row_group_size=700)
    reader, found = source(f"files:{tmp_path}/*"), list[int]()
    while polled := values(reader.poll(333)):
        found += polled
        reader = resumed(reader, f"{tmp_path}/*")
    assert found == list(range(5000))


def test_a_file_that_comes_late_with_an_older_time_is_read(tmp_path: Path) -> None:
    land(tmp_path, "new", 0, age_s=0)
    reader = source(f"files:{tmp_path}/*")
    assert drained(reader) == [0]
    land(tmp_path, "a", 1, age_s=86_400 * 365)
    again = resumed(reader, f"{tmp_path}/*")
    assert drained(reader) == drained(again) == [1]


def test_a_rewritten_file_is_an_error_and_never_read_twice(tmp_path: Path) -> None:
    land(tmp_path, "a", 0, 1, age_s=9)
    reader = source(f"files:{tmp_path}/*")
    assert drained(reader) == [0, 1]
    land(tmp_path, "a", 0, 1, 2, age_s=8)
    land(tmp_path, "b", 3)
    for one in (reader, resumed(reader, f"{tmp_path}/*")):
        with pytest.raises(ObjectChanged, match=r"'a.parquet' .* was rewritten"):
            one.poll()
    other = resumed(reader, f"{tmp_path}/*", on_rewrite="skip")
    assert drained(other) == [3]


def test_a_file_rewritten_while_it_is_read_is_never_taken_half_and_half(tmp_path: Path) -> None:
    land(tmp_path, "a", 0, 1, 2, age_s=9)
    reader = source(f"files:{tmp_path}/*")
    assert values(reader.poll(2)) == [0, 1]
    cursor = reader.cursor
    land(tmp_path, "a", 7, 8, 9, 10, age_s=8)
    other = source(f"files:{tmp_path}/*")
    other.start(cursor)
    with pytest.raises(ObjectChanged, match="2 rows of it were read"):
        other.poll()
    assert other.cursor == cursor
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(ObjectNotFound):
        other.poll()


@pytest.mark.parametrize("grows", [True, False])
def test_a_file_that_changes_between_its_first_and_last_byte_is_refused(grows: bool, tmp_path: Path) -> None:
    """One that is still being written: its last rows are not given before it was looked at again."""
    path = land(tmp_path, "a", *range(200_000), suffix="csv")
    reader = source(f"files:{tmp_path}/*.csv", schema=pa.schema([("v", pa.int64())]))
    first = values(reader.poll(10))
    with path.open("a") as file:
        file.write("200000\n" if grows else "")
    os.utime(path, (1, 1))
    found, error = list(first), None
    try:
        found += drained(reader, 1000)
    except ObjectChanged as changed:
        error = changed
    assert error is not None
    assert found == list(range(len(found)))
    assert len(found) < 200_000


def test_a_torn_parquet_file_is_named_and_nothing_of_it_taken(tmp_path: Path) -> None:
    land(tmp_path, "a", 0, age_s=9)
    whole = land(tmp_path, "b", 1, 2, age_s=8)
    data = whole.read_bytes()
    whole.write_bytes(data[:-20])
    reader = source(f"files:{tmp_path}/*")
    assert values(reader.poll()) == [0]
    for _ in range(2):
        with pytest.raises(UnreadableInput, match=r"b\.parquet is no Parquet file"):
            reader.poll()
    whole.write_bytes(data)
    assert drained(reader) == [1, 2]


def test_hidden_and_unfinished_names_are_no_files(tmp_path: Path) -> None:
    for name in (".a", "_b", "_temporary/c", "d/.e"):
        path = tmp_path / f"{name}.parquet"
        land(path.parent, path.stem, 9)
    land(tmp_path / "2026" / "01", "f", 1)
    assert drained(source(f"files:{tmp_path}/**/*.parquet")) == [1]
    assert drained(source(f"files:{tmp_path}/2026/*/*.parquet")) == [1]
    assert drained(source(f"files:{tmp_path}/*.parquet", schema=pa.schema([("v", pa.int64())]))) == []


def test_files_without_rows_are_passed(tmp_path: Path) -> None:
    land(tmp_path, "a", age_s=9)
    land(tmp_path, "b", age_s=8, suffix="jsonl")
    land(tmp_path, "c", age_s=7, suffix="csv")
    reader = source(f"files:{tmp_path}/*")
    assert reader.schema == pa.schema([("v", pa.int64())])
    assert drained(reader) == []
    assert reader.cursor.files_processed == 3
    land(tmp_path, "d", 5)
    assert drained(reader) == [5]


def test_columns_are_those_of_the_first_file_unless_they_are_declared(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"v": 1, "w": "x"}\n')
    reader = source(f"files:{tmp_path}/*")
    assert reader.schema == pa.schema([("v", pa.int64()), ("w", pa.string())])
    assert [batch.to_pylist() for batch in reader.poll()] == [[{"v": 1, "w": "x"}]]
    (tmp_path / "b.jsonl").write_text('{"v": 2}\n')
    assert [batch.to_pylist() for batch in resumed(reader, f"{tmp_path}/*").poll()] == [[{"v": 2, "w": None}]]
    (tmp_path / "b.jsonl").unlink()
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "c.jsonl").write_text('{"v": 3, "z": 1}\n')
    again = resumed(reader, f"{tmp_path}/*")
    assert again.schema == reader.schema
    with pytest.raises(SchemaMismatch, match=r"c\.jsonl: .*z: is not known"):
        again.poll()
    (tmp_path / "c.jsonl").write_text('{"v": 0.5}\n')
    with pytest.raises(InvalidValue, match="row 0"):
        again.poll()


def test_declared_columns_type_what_files_hold(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
            ("price", pa.decimal128(30, 10)),
            ("note", pa.string()),
        ]
    )
    (tmp_path / "a.jsonl").write_text('{"at": "2026-01-05T01:00:00+01:00", "price": 12345678901234567890.0123456789}\n')
    (tmp_path / "b.csv").write_text("note,price,at\n007,0.10,2026-01-05T00:00:01Z\n")
    reader = source(f"files:{tmp_path}/*", schema=schema)
    rows = [row for batch in reader.poll() for row in batch.to_pylist()]
    assert reader.schema == schema
    assert [str(row["price"]) for row in rows] == ["12345678901234567890.0123456789", "0.1000000000"]
    assert [row["note"] for row in rows] == [None, "007"]
    assert rows[0]["at"] == datetime(2026, 1, 5, tzinfo=UTC)
    (tmp_path / "c.csv").write_text("note\nx\n")
    with pytest.raises(SchemaMismatch, match="at: is missing, and may not be null"):
        reader.poll()


def test_options_of_a_format_are_those_of_append_file(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_text("v;w\n1;1,5\n")
    reader = source(f"files:{tmp_path}/*.dat", format=gl.Csv(delimiter=";", decimal_point=","))
    assert [batch.to_pylist() for batch in reader.poll()] == [[{"v": 1, "w": 1.5}]]
    with pytest.raises(InvalidOption, match="format"):
        source(f"files:{tmp_path}/*.dat").poll()


@pytest.mark.parametrize(("start", "expected"), [("earliest", [0, 1, 2]), ("latest", []), ("time", [1, 2]), ("text", [1, 2])])
def test_where_it_begins(start: str, expected: list[int], tmp_path: Path) -> None:
    for value in range(3):
        land(tmp_path, f"{value}", value, age_s=10 - value)
    time = datetime(2026, 1, 5, tzinfo=UTC) - timedelta(seconds=9)
    given = {"time": time, "text": time.isoformat()}.get(start, start)
    reader = source(f"files:{tmp_path}/*", start=given, schema=pa.schema([("v", pa.int64())]))
    assert drained(reader) == expected
    assert reader.cursor.files_processed == len(expected)
    land(tmp_path, "9", 9)
    assert drained(resumed(reader, f"{tmp_path}/*", schema=pa.schema([("v", pa.int64())]))) == [9]


def many_days(folder: Path, days: int) -> None:
    """A file a day, of which each holds the number of its day."""
    for day in range(days):
        land(folder, f"{day:03}", day, age_s=86_400 * (days - day))


def test_a_window_keeps_the_cursor_small_and_tells_of_a_file_that_comes_later(tmp_path: Path) -> None:
    many_days(tmp_path, 50)
    options: dict[str, Any] = {"late": "3 days"}
    reader = source(f"files:{tmp_path}/*", **options)
    assert drained(reader) == list(range(50))
    land(tmp_path, "100", 100, age_s=86_400 * 2)
    assert drained(reader) == [100]
    assert drained(reader) == []
    read = reader.cursor.state["read"]
    assert (read["forgotten"], len(read["digests"])) == (46, 46 * 8)
    again = resumed(reader, f"{tmp_path}/*", **options)
    assert drained(again) == []
    assert again.cursor.files_processed == 51
    land(tmp_path, "late", 200, age_s=86_400 * 10)
    with pytest.raises(InvalidOption, match=r"1 file of .* came later than late= allows: 'late\.parquet'"):
        again.poll()
    os.utime(tmp_path / "late.parquet")
    assert drained(again) == [200]


def test_a_file_that_comes_too_late_is_told_though_forgotten_ones_were_removed(tmp_path: Path) -> None:
    many_days(tmp_path, 50)
    options: dict[str, Any] = {"late": timedelta(days=3)}
    reader = source(f"files:{tmp_path}/*", **options)
    assert drained(reader) == list(range(50))
    assert drained(reader) == []
    for day in (0, 1, 7, 8, 30):
        (tmp_path / f"{day:03}.parquet").unlink()
    land(tmp_path, "late", 200, age_s=86_400 * 10)
    land(tmp_path, "001", 201, age_s=86_400 * 10)
    for one in (reader, resumed(reader, f"{tmp_path}/*", **options)):
        with pytest.raises(InvalidOption, match=r"1 file of .* came later than late= allows: 'late\.parquet'"):
            one.poll()
    # A cursor holds what is there, not what was.
    (tmp_path / "late.parquet").unlink()
    assert drained(reader) == []
    assert len(reader.cursor.state["read"]["digests"]) == 42 * 8


@pytest.mark.parametrize("on_rewrite", ["error", "skip"])
def test_a_forgotten_file_that_is_rewritten_is_never_read_twice(on_rewrite: str, tmp_path: Path) -> None:
    many_days(tmp_path, 9)
    options: dict[str, Any] = {"late": "3d", "on_rewrite": on_rewrite}
    reader = source(f"files:{tmp_path}/*", **options)
    assert drained(reader) == list(range(9))
    assert drained(reader) == []
    os.utime(tmp_path / "001.parquet")
    for one in (reader, resumed(reader, f"{tmp_path}/*", **options)):
        for _ in range(3):
            if on_rewrite == "skip":
                assert values(one.poll()) == []
            else:
                with pytest.raises(ObjectChanged, match=r"'001.parquet' .* was rewritten"):
                    one.poll()


def test_a_cursor_of_before_digests_goes_on_and_tells_what_it_cannot(tmp_path: Path) -> None:
    """Version 0.1 told how many files it had forgotten, and not which."""
    many_days(tmp_path, 9)
    options: dict[str, Any] = {"late": "3d"}
    reader = source(f"files:{tmp_path}/*", **options)
    assert drained(reader) == list(range(9))
    assert drained(reader) == []
    body = json.loads(reader.cursor.to_json())
    assert body["state"]["read"].pop("digests")

    def started() -> Any:
        again = source(f"files:{tmp_path}/*", **options)
        again.start(Cursor.from_json(json.dumps(body)))
        return again

    assert values(started().poll()) == []
    land(tmp_path, "late", 9, age_s=86_400 * 30)
    with pytest.raises(InvalidOption, match=r"6 files of .* 5 such were read"):
        started().poll()
    for day in (0, 1):
        (tmp_path / f"{day:03}.parquet").unlink()
    again = started()
    with pytest.warns(LogWarning, match=r"may have come too late: 'late.parquet', '002.parquet', '003.parquet', '004.parquet'"):
        assert values(again.poll()) == []
    assert values(again.poll()) == []


def test_a_file_from_the_future_makes_no_other_one_late(tmp_path: Path) -> None:
    """A clock that was wrong once is none that the feed is blocked by for ever."""
    land(tmp_path, "old", 0)
    land(tmp_path, "future", 1)
    ahead = datetime.now(UTC).timestamp() + 86_400 * 365
    os.utime(tmp_path / "future.parquet", (ahead, ahead))
    reader = source(f"files:{tmp_path}/*", late="1 day")
    assert drained(reader) == [0, 1]
    land(tmp_path, "now", 2)
    os.utime(tmp_path / "now.parquet")
    again = resumed(reader, f"{tmp_path}/*", late="1 day")
    assert (drained(reader), drained(again)) == ([2], [2])


def test_a_pattern_that_ends_in_two_stars_names_all_files_below(tmp_path: Path) -> None:
    land(tmp_path, "a", 1, age_s=9)
    land(tmp_path / "x" / "day=5 ☃", "b", 2, age_s=8)
    land(tmp_path / "x" / "_tmp", "c", 3)
    assert drained(source(f"files:{tmp_path}/**")) == [1, 2]
    assert drained(source(f"files:{tmp_path}/x/**")) == [2]


def test_what_a_stranger_is_told_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,\n")
    os.utime(tmp_path / "a.csv", (1, 1))
    reader = source(f"files:{tmp_path}/*")
    assert reader.poll().rows == 1
    says = {
        "b.csv": ("x,y\n1,2\n", r"y: null is known, int64 came: the first rows had no value in it.*schema="),
        "c.csv": ("X,y\n1,\n", r"X: is not known\. Did you mean 'x'\?"),
        "d.jsonl": ('{"x": 1.5}\n', r"cannot keep the value 1\.5 .*give the column a type that holds it"),
        "README.md": ("hi", r'a pattern such as "\*\.csv" leaves it out'),
    }
    for name, (text, match) in says.items():
        (tmp_path / name).write_text(text)
        with pytest.raises((SchemaMismatch, InvalidValue, InvalidOption), match=match):
            reader.poll()
        (tmp_path / name).unlink()
    cursor: Any = reader.cursor.to_json()
    with pytest.raises(InvalidOption, match=r"Cursor\.from_json\(text\)"):
        reader.start(cursor)
    with pytest.raises(InvalidOption, match=r"'files:' names nothing behind its kind.*'files:landing/"):
        source("files:")


def test_a_young_file_waits(tmp_path: Path) -> None:
    class Clock:
        now = datetime(2026, 1, 5, tzinfo=UTC)

        def now_ns(self) -> int:
            return int(self.now.timestamp()) * 10**9

    clock: Any = Clock()
    options = FileOptions(pattern="*", format=None, start="earliest", min_age_ns=60 * 10**9, late_ns=None, on_rewrite="error")
    reader = FileSource(Environment(store=open_store(tmp_path), clock=clock), options, None)
    land(tmp_path, "a", 1, age_s=59)
    assert drained(reader) == []
    clock.now += timedelta(seconds=1)
    assert drained(reader) == [1]


def test_objects_of_a_bucket_are_files(s3_options: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    place, options = s3_options
    store = open_store(f"{place}/in", options)
    for name, value in (("a.parquet", 0), ("b.csv", 2)):
        path = land(tmp_path, name.partition(".")[0], value, value + 1, suffix=name.partition(".")[2])
        store.put(f"day/{name}", path.read_bytes())
    reader = source(f"files:{place}/in/**/*", storage_options=options)
    first = values(reader.poll(3))
    again = resumed(reader, f"{place}/in/**/*", storage_options=options)
    assert sorted(first + drained(again)) == [0, 1, 2, 3]


def test_what_cannot_be_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidPath, match="there is no folder"):
        source(f"files:{tmp_path}/missing/*").poll()
    with pytest.raises(InvalidPath, match="names no files"):
        source(f"files:{tmp_path}/")
    with pytest.raises(InvalidOption, match="not known yet"):
        _ = source(f"files:{tmp_path}/*").schema
    wrong: tuple[tuple[str, Any], ...] = (
        ("start", 7),
        ("start", "lastest"),
        ("until", 3),
        ("min_age", 5),
        ("min_age", "5 fortnights"),
        ("late", timedelta(days=-1)),
        ("on_rewrite", "x"),
        ("schema", {"v": "int64"}),
        ("formt", "csv"),
    )
    for name, value in wrong:
        with pytest.raises(InvalidOption, match=name):
            source(f"files:{tmp_path}/*", **{name: value})
    for start in (datetime(2026, 1, 5), date(2026, 1, 5), "2026-01-05", "2026-13-05T00:00:00Z"):
        with pytest.raises(InvalidTime, match="start="):
            source(f"files:{tmp_path}/*", start=start)
    with pytest.raises(SchemaMismatch, match="comes more than once"):
        source(f"files:{tmp_path}/*", schema=pa.schema([("v", pa.int64()), ("v", pa.int64())]))


def test_a_cursor_of_another_place_or_kind_is_refused(tmp_path: Path) -> None:
    land(tmp_path, "a", 1, 2)
    reader = source(f"files:{tmp_path}/*")
    reader.poll(1)
    cursor = reader.cursor
    with pytest.raises(InvalidOption, match="cannot start"):
        source(f"files:{tmp_path}/*.csv").start(cursor)
    with pytest.raises(InvalidOption, match="cannot start"):
        reader.start(Cursor(source="table", state=cursor.state))
    broken: tuple[dict[str, Any], ...] = (
        {"read": None},
        {"read": {**cursor.state["read"], "files": "!"}},
        {"read": {**cursor.state["read"], "files": "AAAA"}},
        {"current": {"path": "a.parquet"}},
        {"current": {**cursor.state["current"], "row": -1}},
        {"schema": {}},
    )
    for change in broken:
        with pytest.raises(InvalidOption, match="cannot start"):
            reader.start(Cursor(source="files", state={**cursor.state, **change}))
    with pytest.raises(InvalidOption, match="cannot start"):
        reader.start("x")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(NotSupported, match="pickled"):
        copy.copy(reader)
    for limit in (0, True, 1.5):
        with pytest.raises(InvalidOption, match="limit"):
            reader.poll(limit)  # type: ignore[arg-type]  # what is refused
