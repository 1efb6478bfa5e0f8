"""What the log alone answers: counts, bounds, identities, coverage; and counts of what it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from support.counting_store import open_counting

DAY = datetime(2024, 3, 4, tzinfo=UTC)
DAYS = 5


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table of a segment a day, with two symbols in each and one of a single symbol at the end."""
    table = gl.create(tmp_path / "t", index="ts", entity=["k"], bucket="1h")
    for day in range(DAYS):
        times = [DAY + timedelta(days=day, minutes=n) for n in range(0, 1440, 10)]
        table.append(
            {"ts": [*times, *times], "k": ["a"] * len(times) + ["b"] * len(times), "x": np.arange(2 * len(times)) * 1.0}
        )
    table.append(
        {"ts": [DAY + timedelta(days=DAYS, minutes=n) for n in range(3)], "k": ["c"] * 3, "x": [1.0, None, float("nan")]}
    )
    return str(tmp_path / "t")


ROWS = DAYS * 288 + 3


def test_the_log_alone_tells_counts_bounds_identities_and_coverage(place: str) -> None:
    table, store = open_counting(place)
    store.forget()
    assert table.count() == ROWS
    assert table.bounds() == (DAY, DAY + timedelta(days=DAYS, minutes=2))
    assert table.identities() == [("a",), ("b",), ("c",)]
    assert table.coverage().ratio == 1.0
    assert table.scan().count() == ROWS
    assert table.scan(order="index", columns=["x"]).count() == ROWS
    assert table.scan(DAY + timedelta(days=1), DAY + timedelta(days=3)).count() == 2 * 288
    assert table.scan(DAY + timedelta(days=DAYS), entity={"k": "c"}).count() == 3
    assert table.scan(entity={"k": "nobody"}).count() == 0
    assert table.scan(where="k = 'c'").count() == 3
    assert table.scan(where="x is null and k = 'c'").count() == 1
    assert store.under("data") == store.bytes_read[table.segments()[-1].path], "but for the last, of which a value is asked"


def test_a_count_reads_no_more_than_the_segments_at_the_ends_of_a_range(place: str) -> None:
    table, store = open_counting(place)
    store.forget()
    start, end = DAY + timedelta(hours=12), DAY + timedelta(days=3, hours=6)
    rows = table.scan(start, end)
    assert rows.count() == 2 * (72 + 144 + 144 + 36)
    read = {path for path in store.reads if path.startswith("data/")}
    assert read == {table.segments()[0].path, table.segments()[3].path}
    assert rows.to_arrow().num_rows == rows.count()


@pytest.mark.parametrize(
    "where",
    ["k = 'a'", "x > 100", "x > 100 or k = 'c'", "isnan(x)", "not (x > 5)", "k <> 'b'", pc.field("x") > 100, pc.field("k") == "c", pc.field("x").is_valid()],
)  # fmt: skip
def test_a_count_is_that_of_the_rows(place: str, where: str | pc.Expression) -> None:
    table = gl.open(place)
    for start, end in ((None, None), (DAY + timedelta(hours=5), DAY + timedelta(days=2))):
        rows = table.scan(start, end, where=where)
        assert rows.count() == rows.to_arrow().num_rows
    assert table.scan(where=where).count() > 0


def test_an_empty_table_has_no_bounds(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="i", index_type="uint64", bucket=5)
    assert (table.count(), table.bounds(), table.scan().count()) == (0, None, 0)
    table.append({"i": pa.array([2**64 - 1, 7], pa.uint64())})
    assert table.bounds() == (7, 2**64 - 1)
    assert table.at(1).bounds() is None


def test_rows_that_overlap_are_each_counted(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["k"], bucket=5, properties={"on_overlap": "allow"})
    for _ in range(3):
        table.append({"i": [1, 2, 9], "k": ["a", "b", "a"]})
    assert table.scan(1, 9).count() == 6 == table.scan(1, 9).to_arrow().num_rows


def test_sql_groups_by_text_whose_dictionaries_differ_between_row_groups_and_segments(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["k", "n"], bucket=1_000)
    dice = np.random.default_rng(3)
    parts = []
    for number in range(4):
        names = np.array([f"name {number}-{n}" for n in range(50)] + ["common"])
        part = {
            "i": np.arange(3_000) + number * 10_000,
            "k": names[dice.integers(0, 51, 3_000)],
            "n": dice.integers(0, 3, 3_000),
        }
        parts.append(pa.table(part))
        table.append(parts[-1])
    data = pa.concat_tables(parts)
    found = table.sql("select k, count(*) as c, sum(i)::bigint as s from this group by k order by k").to_arrow()
    wanted = data.group_by("k").aggregate([("k", "count"), ("i", "sum")]).sort_by("k")
    assert found.schema.field("k").type == pa.string()
    assert found.column("k").to_pylist() == wanted.column("k").to_pylist()
    assert found.column("c").to_pylist() == wanted.column("k_count").to_pylist()
    assert found.column("s").to_pylist() == wanted.column("i_sum").to_pylist()
    only = table.sql(
        "select distinct k from this where k like '%common' or k in ('name 1-3', 'name 9-9') order by k"
    ).to_arrow()
    assert only.column("k").to_pylist() == ["common", "name 1-3"]
    assert table.sql("select k from this where i >= 10000 and i < 20000 and n = 1 and k >= 'name 1'").count() == sum(
        n == 1 and k >= "name 1" for k, n in zip(parts[1]["k"].to_pylist(), parts[1]["n"].to_pylist(), strict=True)
    )
