"""An update of rows that stay where they are patches their segment: as written anew it reads, and what did not change is byte for byte."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import CorruptTable
from gapless.files.adopt.patch import PatchedSource
from gapless.files.write import file_writer
from gapless.model.segment import Segment

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
ROWS = 60
_counter = itertools.count()

KINDS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "f8": (pa.float64(), (0.0, -0.0, math.nan, math.inf, -1.5, 2.25)),
    "f4": (pa.float32(), (0.0, -0.0, math.nan, 7.5)),
    "f2": (pa.float16(), tuple(np.float16(value) for value in (0.0, -0.0, 1.5))),
    "i8": (pa.int64(), (0, -(2**63), 2**63 - 1, 5)),
    "u1": (pa.uint8(), (0, 255)),
    "yes": (pa.bool_(), (True, False)),
    "text": (pa.string(), ("", "é", "x" * 128, "abc")),
    "raw": (pa.binary(), (b"", b"\0\xff")),
    "day": (pa.date32(), (dt.date(1500, 1, 1), dt.date(2026, 1, 1))),
    "at": (pa.timestamp("us", "UTC"), (START, dt.datetime(1969, 1, 1, tzinfo=dt.UTC))),
    "clock": (pa.time64("us"), (dt.time(0), dt.time(23, 59, 59, 999_999))),
    "cost": (pa.decimal128(20, 4), (decimal.Decimal("1.5000"), decimal.Decimal("-2.2500"))),
    "none": (pa.float64(), (None,)),
}


def column(name: str, count: int, dice: np.random.Generator) -> pa.Array:
    kind, values = KINDS[name]
    picked = [None if dice.random() < 0.2 else values[dice.integers(len(values))] for _ in range(count)]
    return pa.array(picked, kind)


def values(count: int, seed: int) -> dict[str, pa.Array]:
    dice = np.random.default_rng(seed)
    return {name: column(name, count, dice) for name in KINDS}


def base(seed: int) -> pa.Table:
    """Two series, a row a minute."""
    each = ROWS // 2
    times = [START + dt.timedelta(minutes=at % each) for at in range(ROWS)]
    keys = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "s": ["a"] * each + ["b"] * each}
    return pa.table(keys | values(ROWS, seed))


def filled(data: pa.Table, where: str, **properties: Any) -> gl.TimeSeriesTable:
    table = gl.create(where, index="ts", entity="s", bucket="1m", properties=properties)
    table.append(data)
    return table


def updated(data: pa.Table, rows: list[int], names: list[str], seed: int) -> pa.Table:
    """Some of the rows, with other values in some of the columns."""
    chosen = data.take(pa.array(rows, pa.int64()))
    fresh = values(len(rows), seed)
    for name in names:
        chosen = chosen.set_column(chosen.schema.get_field_index(name), name, fresh[name])
    return chosen


class Watched:
    """Counts the patches that are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        real = PatchedSource.patched

        def patched(source: PatchedSource, *args: Any) -> Any:
            self.made += 1
            return real(source, *args)

        monkeypatch.setattr(PatchedSource, "patched", patched)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.fixture
def memory() -> str:
    return f"memory://patches-{next(_counter)}"


def bits(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows so that NaN equals NaN, and -0.0 does not equal 0.0."""
    return [tuple(repr(value) for value in row.values()) for row in table.to_pylist()]


def said(segment: Segment) -> tuple[Any, ...]:
    """All that the log says of a segment but for its bytes."""
    return segment.rows, segment.bounds, segment.coverage, segment.identity, segment.sorted_by, dict(segment.stats)


def chunks(file: Path) -> dict[tuple[int, str], bytes]:
    data, metadata = file.read_bytes(), pq.read_metadata(file)
    found = {}
    for group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(leaf)
            start = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
            found[group, chunk.path_in_schema] = data[start : start + chunk.total_compressed_size]
    return found


# -- as written anew ---------------------------------------------------------------------------------------------------


@given(
    rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=12, unique=True),
    names=st.lists(st.sampled_from(sorted(KINDS)), max_size=4, unique=True),
    seeds=st.tuples(st.integers(0, 2**20), st.integers(0, 2**20)),
    group_rows=st.sampled_from([7, 20, 1_000]),
    codec=st.sampled_from(["fastest", "balanced", "smallest", "none", "snappy"]),
    twice=st.booleans(),
)
@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # to shrink takes minutes
def test_it_is_what_writing_anew_makes_of_it(
    rows: list[int], names: list[str], seeds: tuple[int, int], group_rows: int, codec: str, twice: bool
) -> None:
    data, number = base(seeds[0]), next(_counter)
    changes = [updated(data, rows, names, seeds[1])]
    changes += [updated(data, rows[:1], names[::-1], seeds[1] + 1)] if twice else []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(file_writer, "MAX_ROW_GROUP_ROWS", group_rows)
        watched = Watched(monkeypatch)
        patched = filled(data, f"memory://patched-{number}", codec=codec)
        anew = filled(data, f"memory://anew-{number}", codec=codec)
        for change in changes:
            mine = patched.upsert(change)
            with patch.object(PatchedSource, "open", lambda *_: None):
                theirs = anew.upsert(change)
            assert mine == theirs
    assert watched.made == len(changes)
    assert bits(patched.scan().to_arrow()) == bits(anew.scan().to_arrow())
    (one,), (other,) = patched.segments(), anew.segments()
    assert said(one) == said(other)
    assert patched.verify(deep=True).findings == ()


@pytest.mark.parametrize("rows", [[0], [29_999], [15_000], [3, 4, 12_345], [5, 29_990], [10_000, 10_001, 20_000]])
@pytest.mark.parametrize("codec", ["fastest", "balanced"])
def test_rows_of_many_pages(memory: str, watched: Watched, rows: list[int], codec: str) -> None:
    """More rows than are looked at without narrowing them down by their keys, near each other and far apart."""
    count, dice = 30_000, np.random.default_rng(4)
    times = 1_767_571_200_000_000 + np.tile(np.arange(count // 3), 3) * 60_000_000
    floats = pa.array(np.round(dice.normal(100, 1, count), 2), mask=dice.random(count) < 0.1)
    data = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "s": np.repeat(["a", "b", "c"], count // 3),
            "x": floats,
            "n": pa.array(dice.integers(0, 1_000, count)),
            "kept": pa.array(np.arange(count)),
        }
    )
    table = filled(data, memory, codec=codec)
    places = pa.array(rows)
    change = data.take(places).set_column(2, "x", pa.array([7.25] * len(rows))).set_column(3, "n", pa.array([-1] * len(rows)))
    assert table.upsert(change).updated_rows == len(rows)
    x, n = data["x"].to_pylist(), data["n"].to_pylist()
    for row in rows:
        x[row], n[row] = 7.25, -1
    expected = data.set_column(2, "x", pa.array(x)).set_column(3, "n", pa.array(n))
    assert watched.made == 1
    assert table.scan().to_arrow().cast(expected.schema).equals(expected)
    (segment,) = table.segments()
    assert (segment.stats["n"].min, segment.stats["n"].nulls, segment.stats["x"].min) == (-1, 0, 7.25)
    assert table.verify(deep=True).findings == ()


@pytest.mark.parametrize("codec", ["fastest", "balanced", "smallest"])
def test_every_reader_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Watched, codec: str) -> None:
    monkeypatch.setattr(file_writer, "MAX_ROW_GROUP_ROWS", 20)
    data = base(1).drop_columns(["f2"])
    table = filled(data, str(tmp_path / "t"), codec=codec)
    table.upsert(base(1).drop_columns(["f2"]).slice(25, 3).set_column(2, "f8", pa.array([9.0, None, -0.0])))
    assert watched.made == 1
    (segment,) = table.segments()
    file = tmp_path / "t" / segment.path
    expected = bits(table.scan().to_arrow())
    assert bits(pq.read_table(file)) == expected
    assert [row[2] for row in bits(pq.read_table(file, page_checksum_verification=True))[25:28]] == ["9.0", "None", "-0.0"]
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        seen = connection.execute(f"select f8, i8, text from read_parquet('{file}')").fetchall()
    picked = table.scan(columns=["f8", "i8", "text"]).to_arrow()
    assert [tuple(map(repr, row)) for row in seen] == bits(picked)
    assert [tuple(map(repr, row)) for row in pl.read_parquet(file, columns=["f8", "i8", "text"]).rows()] == bits(picked)


# -- what stays --------------------------------------------------------------------------------------------------------


def test_only_what_changed_has_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Watched) -> None:
    monkeypatch.setattr(file_writer, "MAX_ROW_GROUP_ROWS", 20)
    data = base(2)
    table = filled(data, str(tmp_path / "t"))
    (old,) = table.segments()
    before, notes = chunks(tmp_path / "t" / old.path), pq.read_metadata(tmp_path / "t" / old.path).metadata
    # The second row group of three, rows 20 to 39.
    change = data.slice(33, 1).set_column(data.schema.get_field_index("i8"), "i8", pa.array([77]))
    table.upsert(change)
    (new,) = table.segments()
    after = chunks(tmp_path / "t" / new.path)
    assert watched.made == 1
    assert {where for where in before if before[where] != after[where]} == {(1, "i8")}
    assert pq.read_metadata(tmp_path / "t" / new.path).metadata == notes
    groups = pq.read_metadata(tmp_path / "t" / new.path)
    assert [groups.row_group(number).num_rows for number in range(3)] == [20, 20, 20]
    sizes = [sum(len(data) for (at, _), data in after.items() if at == number) for number in range(3)]
    assert sizes == [
        sum(groups.row_group(n).column(c).total_compressed_size for c in range(groups.num_columns)) for n in range(3)
    ]


def test_ups_13_rows_that_are_what_they_were_write_no_file(tmp_path: Path, watched: Watched) -> None:
    data = base(3)
    table = filled(data, str(tmp_path / "t"))
    before, version = table.segments(), table.version
    report = table.upsert(data.slice(4, 2))
    assert watched.made == 1
    assert (report.updated_rows, report.rows, report.segments, report.version) == (0, 0, 0, version)
    assert (table.segments(), table.version) == (before, version)
    assert [path.name for path in (tmp_path / "t" / "data").rglob("*.parquet")] == [Path(before[0].path).name]


def test_a_table_of_nothing_but_keys(memory: str, watched: Watched) -> None:
    data = base(3).select(["ts", "s"])
    table = filled(data, memory)
    (old,) = table.segments()
    assert table.upsert(data.slice(4, 2)).updated_rows == 0
    assert (watched.made, table.segments()) == (1, (old,))
    assert table.verify(deep=True).findings == ()


@pytest.mark.parametrize("rows", [1, ROWS])
def test_every_row_of_a_segment(memory: str, watched: Watched, rows: int) -> None:
    table = filled(base(3).slice(0, rows), memory)
    other = base(12).slice(0, rows)
    assert table.upsert(other).updated_rows == rows
    assert watched.made == 1
    assert bits(table.scan().to_arrow()) == bits(other)
    assert table.verify(deep=True).findings == ()


def test_bounds_shrink_with_the_value_that_made_them(memory: str, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "MAX_ROW_GROUP_ROWS", 4)
    times = [START + dt.timedelta(minutes=at) for at in range(12)]
    data = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "s": ["a"] * 12, "v": [float(at) for at in range(12)]})
    table = filled(data, memory)
    table.upsert(data.slice(11, 1).set_column(2, "v", pa.array([3.5])))
    (segment,) = table.segments()
    assert watched.made == 1
    assert (segment.stats["v"].min, segment.stats["v"].max) == (0.0, 10.0)
    table.upsert(data.slice(0, 1).set_column(2, "v", pa.array([None], pa.float64())))
    (segment,) = table.segments()
    assert (segment.stats["v"].min, segment.stats["v"].nulls) == (1.0, 1)


def test_long_texts_are_no_bounds(memory: str, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "MAX_ROW_GROUP_ROWS", 4)
    times = [START + dt.timedelta(minutes=at) for at in range(12)]
    data = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "s": ["a"] * 12, "v": [f"{at:02}" for at in range(12)]})
    table = filled(data, memory)
    found = []
    for value in ("9" * 129, "0" * 129, "05"):
        table.upsert(data.slice(2, 1).set_column(2, "v", pa.array([value])))
        known = table.segments()[0].stats["v"]
        found.append((known.min, known.max))
    assert watched.made == 3
    assert found == [(None, None), ("00", "11"), ("00", "11")]


# -- where it cannot be ------------------------------------------------------------------------------------------------


def another_time(data: pa.Table) -> pa.Table:
    moved = pa.array([data["ts"][0].as_py() + dt.timedelta(seconds=1)], pa.timestamp("us", "UTC"))
    return data.slice(0, 1).set_column(0, "ts", moved)


def test_a_new_row_among_them_is_written_anew(memory: str, watched: Watched) -> None:
    data = base(4)
    table = filled(data, memory)
    report = table.upsert(pa.concat_tables([data.slice(7, 1), another_time(data)]))
    assert (watched.made, report.updated_rows, report.inserted_rows) == (0, 1, 1)
    assert table.scan().count() == ROWS + 1


def test_several_rows_of_one_key_give_way_to_one(memory: str, watched: Watched) -> None:
    data = base(5)
    table = filled(pa.concat_tables([data, data.slice(7, 1)]), memory)
    report = table.upsert(data.slice(7, 1))
    assert (watched.made, report.updated_rows, table.scan().count()) == (0, 1, ROWS)


def test_another_key_may_move_rows(memory: str, watched: Watched) -> None:
    data = base(6).set_column(5, "i8", pa.array(range(ROWS), pa.int64()))
    table = filled(data, memory)
    row = data.slice(7, 1).set_column(0, "ts", data["ts"].slice(8, 1))
    table.upsert(row, key="i8")
    assert watched.made == 0
    assert table.verify(deep=True).findings == ()


@pytest.mark.parametrize("how", ["codec", "column", "adopted", "nested"])
def test_a_file_that_would_not_be_written_so_is_written_anew(tmp_path: Path, watched: Watched, how: str) -> None:
    data = base(8)
    if how == "nested":
        data = data.append_column("many", pa.array([[at] for at in range(ROWS)]))
    table = gl.create(tmp_path / "t", index="ts", entity="s", bucket="1m")
    if how == "adopted":
        pq.write_table(data, tmp_path / "in.parquet")
        table.append_file(tmp_path / "in.parquet", adopt="copy")
    else:
        table.append(data)
    if how == "codec":
        table.set_properties({"codec": "smallest"})
    if how == "column":
        table.add_column("more", "int64")
        data = data.append_column("more", pa.array(range(ROWS)))
    table.upsert(data.slice(9, 1))
    assert watched.made == 0
    assert bits(table.scan(columns=["f8"]).to_arrow()) == bits(data.select(["f8"]))
    assert table.verify(deep=True).findings == ()


def test_a_renamed_column_is_found_by_its_stored_name(memory: str, watched: Watched) -> None:
    data = base(11)
    table = filled(data, memory)
    table.rename_column("f8", "price")
    renamed = data.rename_columns(["price" if name == "f8" else name for name in data.schema.names])
    table.upsert(renamed.slice(9, 1).set_column(2, "price", pa.array([4.5])))
    assert watched.made == 1
    assert table.scan(columns=["price"]).to_arrow()["price"][9].as_py() == 4.5
    assert (table.scan().count(), table.verify(deep=True).findings) == (ROWS, ())


def test_a_row_that_comes_to_another_segment_is_written_there(memory: str, watched: Watched) -> None:
    data = base(9)
    table = filled(data, memory)
    table.append(another_time(data), on_overlap="allow")
    report = table.upsert(data.slice(0, 1))
    assert (watched.made, report.updated_rows, table.scan().count()) == (0, 1, ROWS + 1)
    assert sorted(segment.rows for segment in table.segments()) == [2, ROWS - 1]
    assert table.verify(deep=True).findings == ()


def test_a_key_in_two_segments_stays_in_the_later(memory: str, watched: Watched) -> None:
    data = base(9)
    table = filled(data, memory)
    table.append(data.slice(3, 1), on_overlap="allow")
    report = table.upsert(data.slice(3, 1))
    assert (watched.made, report.updated_rows, table.scan().count()) == (1, 1, ROWS)
    assert sorted(segment.rows for segment in table.segments()) == [1, ROWS - 1]


def test_damage_is_found_and_not_copied(tmp_path: Path) -> None:
    data = base(10)
    table = filled(data, str(tmp_path / "t"))
    (segment,) = table.segments()
    file = tmp_path / "t" / segment.path
    spoilt = bytearray(file.read_bytes())
    spoilt[200] ^= 1
    file.write_bytes(spoilt)
    with pytest.raises(CorruptTable):
        table.upsert(data.slice(3, 1))
    assert [one.path for one in table.segments()] == [segment.path]
