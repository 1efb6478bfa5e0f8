"""Rows of Delta tables along a curve, so that filters open few files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import InvalidOption, UnknownColumn, UnsupportedType
from gapless.files.sort import curve_sort
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import ClockedDelta, numbered
from support.delta_rows import counted_table
from support.delta_tables import LAYOUTS, replayed, rows_of

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("name", pa.string()), ("part", pa.int32())])
ROWS = 8_000
FILES = 40


def points(rows: int = ROWS, seed: int = 5) -> pa.Table:
    """Points spread evenly over a square of side 1,000."""
    numbers = np.random.default_rng(seed)
    columns = [numbers.integers(0, 1_000, rows), numbers.integers(0, 1_000, rows), [f"n{one:04}" for one in numbers.integers(0, 1_000, rows)], numbers.integers(0, 2, rows)]  # fmt: skip
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def scattered(
    path: Path,
    *,
    rows: int = ROWS,
    appends: int = 4,
    partition_by: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    table = DeltaTable.create(path, SCHEMA, partition_by=partition_by, properties=properties or {})
    for one in range(appends):
        table.append(points(rows // appends, seed=one))
    return table


def cut(table: DeltaTable, *columns: str, curve: str = "z") -> None:
    """Along a curve, in about `FILES` files."""
    size = sum(file.size for file in table.files())
    table.zorder(columns, curve=curve, target_size=size // FILES)


def boxes() -> list[str]:
    """Filters for a hundredth of the square each, all over it."""
    corners = itertools.product(range(0, 901, 180), repeat=2)
    return [f"x between {x} and {x + 99} and y between {y} and {y + 99}" for x, y in corners]


def opened(table: DeltaTable) -> float:
    """The share of the files that a box opens, by statistics, on average."""
    files = len(table.files())
    return float(np.mean([len(table.scan(where=box).files()) / files for box in boxes()]))


@pytest.mark.parametrize(("curve", "most"), [("z", 0.10), ("hilbert", 0.065)])
def test_a_box_of_a_hundredth_opens_few_files(curve: str, most: float, tmp_path: Path) -> None:
    """Squares of the files' size would be 0.047."""
    table = scattered(tmp_path / "t")
    assert opened(table) == 1, "unsorted: all"
    before = rows_of(table)
    inside = counted_table(table.scan(where=boxes()[7]).to_arrow())
    cut(table, "x", "y", curve=curve)
    assert len(table.files()) >= FILES
    assert opened(table) <= most
    assert counted_table(table.scan(where=boxes()[7]).to_arrow()) == inside
    assert rows_of(table) == before
    for one in ("x between 100 and 109", "y < 10"):
        assert len(table.scan(where=one).files()) <= len(table.files()) / 3, "each column alone prunes, too"


def test_one_column_is_a_sort(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")
    cut(table, "name")
    bounds = [(str(file.stats["name"].min), str(file.stats["name"].max)) for file in table.files()]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(bounds))
    assert len(table.scan(where="name = 'n0500'").files()) <= 2


def test_what_lies_along_the_curve_already_stays_until_rows_come(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t", rows=4_000)
    first = table.zorder(["x", "y"])
    assert (first.segments_before, first.segments_after, first.rows) == (4, 1, 4_000)
    assert table.zorder(["x", "y"]).version == first.version, "no commit"
    assert table.zorder(["x", "y"], curve="hilbert").version == first.version + 1
    table.append(points(100))
    assert table.zorder(["x", "y"], curve="hilbert").segments_before == 2
    table.delete("x < 10")
    assert table.zorder(["x", "y"], curve="hilbert").bins in (0, 1)


def test_partitions_are_ordered_each_by_itself(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t", rows=4_000, partition_by=("part",))
    before = rows_of(table)
    report = table.zorder("x", where="part = 1")
    assert (report.bins, report.segments_before, report.segments_after) == (1, 4, 1)
    assert table.zorder("x").segments_before == 4, "the other one"
    assert rows_of(table) == before
    for file in table.files():
        values = pq.read_table(tmp_path / "t" / file.path).column("x").to_numpy()
        assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_keeps_its_rows(layout: str, tmp_path: Path) -> None:
    table = scattered(tmp_path / "t", rows=400, properties=LAYOUTS[layout])
    table.delete("x < 100")
    before = rows_of(table)
    table.zorder(["x", "name"], curve="hilbert")
    assert rows_of(table) == before
    assert sum(file.deleted_rows for file in table.files()) == 0
    if "feed" in layout:
        assert replayed(table) == before


def test_the_log_says_how_rows_lie_in_deltas_words(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t", rows=400)
    table.zorder(["x", "y"])
    lines = (tmp_path / "t" / "_delta_log" / f"{table.version:020}.json").read_text().splitlines()
    info = json.loads(lines[0])["commitInfo"]
    assert json.loads(info["operationParameters"]["zOrderBy"]) == ["x", "y"]
    (added,) = (json.loads(line)["add"] for line in lines if line.startswith('{"add"'))
    assert (added["dataChange"], added["tags"]["ZCUBE_ZORDER_BY"], added["tags"]["ZCUBE_ZORDER_CURVE"]) == (
        False,
        "x,y",
        "zorder",
    )
    assert counted_table(DeltaLakeTable(str(tmp_path / "t")).to_pyarrow_table()) == rows_of(table)


def test_nulls_and_nan_have_their_place() -> None:
    table = ClockedDelta(schema=pa.schema([("id", pa.int64()), ("v", pa.float64())]))
    values = [None, float("nan"), 1.0, -1.0, float("inf"), None, -0.0, 0.0]
    table.table.append(pa.table({"id": pa.array([None, *range(7)], pa.int64()), "v": values}))
    before = counted_table(table.table.scan().to_arrow())
    table.table.zorder(["v", "id"])
    assert counted_table(table.open().scan().to_arrow()) == before


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ([], InvalidOption, "one to 4"), (["x"] * 2, InvalidOption, "different"), (["x", "y", "name", "part", "l"], InvalidOption, "one to 4"), ([1], InvalidOption, "columns="),
        (["z"], UnknownColumn, "'z'"), (["l"], UnsupportedType, "'l'"), (["part"], InvalidOption, "partition column"),
    ],
)  # fmt: skip
def test_columns_are_one_to_four_that_have_an_order(
    columns: list[str], error: type[Exception], says: str, tmp_path: Path
) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA.append(pa.field("l", pa.list_(pa.int8()))), partition_by="part")
    with pytest.raises(error, match=says):
        table.zorder(columns)


def test_an_unknown_curve_names_the_nearest() -> None:
    with pytest.raises(InvalidOption, match="Did you mean 'hilbert'"):
        ClockedDelta().table.zorder("id", curve="hilberts")


def test_a_table_larger_than_memory_is_ordered_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = scattered(tmp_path / "t")
    before = rows_of(table)
    monkeypatch.setattr(curve_sort.curve_sorted, "__kwdefaults__", {"memory": 1 << 18})
    cut(table, "x", "y")
    assert rows_of(table) == before
    assert opened(table) <= 0.10


def test_rows_of_older_columns_are_ordered_too() -> None:
    table = ClockedDelta()
    table.append(3, 1, 2)
    table.table.alter.add_column("more", pa.int64())
    table.table.append(pa.table({"id": [0], "v": ["x"], "more": [7]}))
    table.table.zorder(["more", "id"])
    assert table.open().scan().to_arrow().column("id").to_pylist() == [0, 1, 2, 3]
    assert numbered(1).num_rows == 1


def test_a_column_that_another_handle_added_is_known() -> None:
    table = ClockedDelta()
    table.append(1)
    stale = table.open()
    table.table.alter.add_column("more", pa.int64())
    assert stale.zorder("more").segments_before == 1
