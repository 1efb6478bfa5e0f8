"""Tables that timeseries-table-format 0.9.0 writes: read here with the same rows and coverage, taken over, read there again."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
import timeseries_table_format as ttf
from pyroaring import BitMap

import gapless as gl
from gapless.errors import CorruptTable, UnsupportedTable, UpgradeNeeded

Kind = Literal["timestamp", "int64", "uint64"]
Query = Callable[..., pa.Table]
HOUR = timedelta(hours=1)
START = datetime(2024, 1, 1)
SIGN = 2**63
FIXTURES = Path(__file__).parent / "fixtures"


def hours(*numbers: int | None, unit: str = "us", zone: str | None = None) -> pa.Array:
    zero = None if zone is None else UTC
    return pa.array([None if n is None else (START + n * HOUR).replace(tzinfo=zero) for n in numbers], pa.timestamp(unit, zone))


def rows(*numbers: int | None, **columns: Any) -> pa.Table:
    return pa.table({"ts": hours(*numbers), **columns})


def create_there(root: Path, *, granularity: str | int = "1h", kind: Kind = "timestamp", **options: Any) -> ttf.TimeSeriesTable:
    index = {"timestamp": "ts"}.get(kind, "k")
    return ttf.TimeSeriesTable.create(
        table_root=str(root), index_column=index, index_type=kind, index_granularity=granularity, **options
    )


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


# -- an independent decoder of its sidecars, from the format's description ----------------------------------------------


def decode_treemap(data: bytes) -> set[int]:
    (parts,) = struct.unpack_from("<Q", data)
    at, found = 8, set()
    for _ in range(parts):
        (high,) = struct.unpack_from("<I", data, at)
        part = BitMap.deserialize(data[at + 4 :])
        at += 4 + len(part.serialize())
        found |= {high << 32 | low for low in part}
    assert at == len(data)
    return found


def decode_sidecar(data: bytes) -> dict[tuple[Any, ...], set[int]]:
    if data[:8] != b"TSTECOV2":
        return {(): decode_treemap(data)}
    (count,) = struct.unpack_from(">I", data, 8)
    at, found = 12, {}
    for _ in range(count):
        (width,) = struct.unpack_from(">I", data, at)
        at += 4
        identity: list[Any] = []
        for _ in range(width):
            tag, at = data[at], at + 1
            form = {1: ">Q", 2: ">i", 3: ">q", 4: ">Q"}[tag]
            value: Any = struct.unpack_from(form, data, at)[0]
            at += struct.calcsize(form)
            if tag == 1:
                value, at = data[at : at + value].decode(), at + value
            identity.append(value)
        (length,) = struct.unpack_from(">Q", data, at)
        at += 8
        found[tuple(identity)] = decode_treemap(data[at : at + length])
        at += length
    assert at == len(data)
    return found


def actions_of(root: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted((root / "_timeseries_log").glob("*.json")):
        for action in json.loads(path.read_text())["actions"]:
            yield from action.items()


def their_coverage(root: Path) -> dict[tuple[Any, ...], set[int]]:
    """The newest snapshot of the whole table's coverage, as it wrote it."""
    newest = [body["coverage_path"] for name, body in actions_of(root) if name == "UpdateTableCoverage"][-1]
    return decode_sidecar((root / newest).read_bytes())


def our_coverage(table: gl.TimeSeriesTable, width: int) -> dict[tuple[Any, ...], set[int]]:
    """Ours, in the ids of protocol 7; `width` in seconds or in index units."""
    found: dict[tuple[Any, ...], set[int]] = {}
    for bucket in table.coverage().buckets():
        start = bucket.start
        if isinstance(start, datetime):
            start = int((start.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        number = start // width
        found.setdefault(bucket.identity, set()).add(number if table.index.type == "uint64" else number % 2**64 ^ SIGN)
    return found


# -- reading -----------------------------------------------------------------------------------------------------------


def through_everything(root: Path) -> ttf.TimeSeriesTable:
    """A table that has seen each of its operations: 7 versions, 10 rows, two of them without an index value."""
    table = create_there(root, entity_columns=["sym"])
    table.append(rows(0, 1, 2, 0, 1, sym=["A", "A", "A", "B", "B"], v=[1.0, 2.0, 3.0, 4.0, 5.0]))
    table.append(rows(-5, 7, sym=["A", "C"], v=[6.0, 7.0]))
    table.add_columns(pa.schema([pa.field("note", pa.string(), metadata={"unit": "x"})]))
    # Null index rows are a defect of its append: stored, never covered.
    table.append(rows(10, None, None, sym=["A", "A", "A"], v=[8.0, 9.0, 10.0], note=["x", None, "z"]))
    table.update_rows(rows(1, sym=["A"], v=[99.0]), columns=["v"], expected_version=table.version())
    table.optimize()
    table.vacuum(datetime.now(UTC), apply=True)
    return table


def test_rows_coverage_and_history_of_a_table_that_saw_every_operation(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    theirs = through_everything(root)
    table = gl.open(root)
    assert table.version == theirs.version() == 7
    assert rows_of(table.scan().to_arrow()) == rows_of(query_there(root))
    assert rows_of(table.sql("select * from this").to_arrow()) == rows_of(query_there(root))
    assert our_coverage(table, 3600) == their_coverage(root)
    assert table.identities() == [("A",), ("B",), ("C",)]
    assert [entry.operation for entry in table.history()] == [
        "create",
        "append",
        "append",
        "alter",
        "append",
        "rewrite",
        "rewrite",
    ]
    assert {entry.engine for entry in table.history()} == {"timeseries-table-format"}
    live = {body["path"] for name, body in actions_of(root) if name == "AddSegment"}
    live -= {body["path"] for name, body in actions_of(root) if name == "RemoveSegment"}
    assert {segment.path for segment in table.segments()} == live
    assert sum(segment.rows for segment in table.segments()) == 10
    assert table.schema is not None
    assert table.schema.field("note").metadata == {b"unit": b"x"}


@pytest.mark.parametrize("order", [None, "index"])
def test_rows_without_an_index_value_are_never_lost_and_never_made_up(tmp_path: Path, order: str | None) -> None:
    through_everything(tmp_path / "t")
    table = gl.open(tmp_path / "t")
    nulls = table.scan(where="ts is null", order=order).to_arrow()
    assert sorted(nulls["v"].to_pylist()) == [9.0, 10.0]
    assert sorted(table.scan(columns=["v"], entity={"sym": "A"}, order=order).to_arrow()["v"].to_pylist()) == [
        1,
        3,
        6,
        8,
        9,
        10,
        99,
    ]
    assert table.scan(START - 99 * HOUR, START + 99 * HOUR, order=order).count() == 8
    assert table.sql("select count(*), count(ts) from this").to_arrow().to_pylist() == [{"count_star()": 10, "count(ts)": 8}]
    assert {bucket.start for bucket in table.coverage(entity={"sym": "A"}).buckets()} == {
        START + n * HOUR for n in (-5, 0, 1, 2, 10)
    }


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamp_indexes(tmp_path: Path, query_there: Query, unit: str, zone: str | None) -> None:
    root = tmp_path / "t"
    theirs = create_there(root, granularity="1d", timezone=zone)
    theirs.append(pa.table({"ts": hours(0, -24 * 20_000, 24 * 900, unit=unit, zone=zone), "n": [0, 1, 2]}))
    theirs.append(pa.table({"ts": hours(30, unit=unit, zone=zone), "n": [3]}))
    table = gl.open(root, upgrade=True)
    assert table.schema is not None
    assert table.schema.field("ts").type == pa.timestamp(unit, zone)
    # Its days are UTC days in every zone.
    assert our_coverage_in_utc(table) == their_coverage(root)
    with pytest.raises(gl.CoverageOverlap):
        table.append(pa.table({"ts": hours(23, unit=unit, zone=zone), "n": [4]}))
    table.append(pa.table({"ts": hours(-9, unit=unit, zone=zone), "n": [5]}))
    there = query_there(root)
    assert there.num_rows == 5
    assert rows_of(there) == rows_of(table.scan().to_arrow())
    assert query_there(root, "select n from t where ts < timestamp '2024-01-01T00:00:00Z' order by n")["n"].to_pylist() == [
        1,
        5,
    ]


def our_coverage_in_utc(table: gl.TimeSeriesTable) -> dict[tuple[Any, ...], set[int]]:
    days = [bucket.start for bucket in table.coverage().buckets()]
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    shifts = [(day if day.tzinfo else day.replace(tzinfo=UTC)) - zero for day in days]
    assert all(shift % timedelta(days=1) == timedelta() for shift in shifts)
    return {(): {shift // timedelta(days=1) % 2**64 ^ SIGN for shift in shifts}}


@pytest.mark.parametrize(
    ("kind", "values"), [("int64", [-(2**63), -11, -1, 0, 2**63 - 1]), ("uint64", [0, 19, 20, 2**63, 2**64 - 1])]
)
@pytest.mark.parametrize("entity", [None, "int32", "int64", "uint64", "string"])
def test_integer_indexes_with_every_entity_type(
    tmp_path: Path, query_there: Query, kind: Kind, values: list[int], entity: str | None
) -> None:
    root = tmp_path / "t"
    theirs = create_there(root, granularity=10, kind=kind, entity_columns=[] if entity is None else ["e", "f"])
    keys = (
        {}
        if entity is None
        else {"e": pa.array([str(n) if entity == "string" else n for n in (1, 2, 1, 2, 1)], entity), "f": ["x"] * 5}
    )
    data = pa.table({"k": pa.array(values, kind), **keys})
    theirs.append(data.slice(0, 3))
    theirs.append(data.slice(3))
    if entity is not None:
        theirs.optimize()
    table = gl.open(root)
    assert rows_of(table.scan().to_arrow()) == rows_of(query_there(root)) == rows_of(data)
    assert our_coverage(table, 10) == their_coverage(root)


# -- taking a table over -----------------------------------------------------------------------------------------------


def test_the_first_append_needs_upgrade_and_leaves_nothing_behind_without(tmp_path: Path) -> None:
    root = tmp_path / "t"
    theirs = through_everything(root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(UpgradeNeeded, match="upgrade=True") as refused:
        gl.open(root).append(rows(20, sym=["A"], v=[1.0], note=["n"]))
    assert (refused.value.exit_code, refused.value.path) == (1, gl.open(root).url)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    theirs.append(rows(20, sym=["A"], v=[1.0], note=["n"]))
    assert gl.open(root).version == 8


def test_taken_over_it_is_read_there_with_all_rows(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    through_everything(root)
    table = gl.open(root, upgrade=True)
    table.append(rows(20, sym=["A"], v=[1.0], note=["n"]))
    table.append(rows(21, sym=["D"], v=[2.0]))
    there = query_there(root)
    assert there.num_rows == 12
    assert rows_of(there) == rows_of(gl.open(root).scan().to_arrow()) == rows_of(table.scan().to_arrow())
    assert query_there(root, "select v from t where sym = 'D'")["v"].to_pylist() == [2.0]
    assert gl.open(root).append(rows(22, sym=["D"], v=[3.0])).version == 10  # no second upgrade
    with pytest.raises(ttf.TimeseriesTableError, match="unsupported table writer features"):
        ttf.TimeSeriesTable.open(str(root)).append(rows(30, sym=["A"], v=[1.0], note=["n"]))


def test_overlap_with_its_rows_is_seen_in_its_sidecars(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    through_everything(root)
    table = gl.open(root, upgrade=True)
    again = rows(0, 1, 2, 3, sym=["B", "B", "B", "A"], v=[0.0] * 4)
    with pytest.raises(gl.CoverageOverlap) as refused:
        table.append(again)
    error = refused.value
    assert (error.identity, error.start, error.end, error.buckets, error.version) == (("B",), START, START + 2 * HOUR, 2, 7)
    assert ttf.TimeSeriesTable.open(str(root)).version() == 7
    report = table.append(again, on_overlap="skip")
    assert (report.rows, report.skipped_rows, report.skipped_buckets) == (2, 2, 2)
    assert query_there(root).num_rows == 12


NESTED = {
    "struct": pa.array([{"a": 1, "b": "x"}, None]),
    "strict struct": pa.array([{"a": 1}, None], pa.struct([pa.field("a", pa.int64(), nullable=False)])),
    "strict list": pa.array([[1], None], pa.list_(pa.field("element", pa.int64(), nullable=False))),
    "annotated list": pa.array([[{"a": 1}], None], pa.list_(pa.field("item", pa.struct([pa.field("a", pa.int64(), metadata={"q": "r"})])))),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "sorted map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64(), keys_sorted=True)),
    "zone": hours(0, None, unit="ms", zone="Europe/Berlin"),
    "offset": hours(0, None, zone="+05:30"),
    "utc by another name": hours(0, None, zone="+00:00"),
    "nested zone": pa.array([{"t": START}, None], pa.struct([("t", pa.timestamp("us", "Asia/Tokyo"))])),
    "decimal": pa.array([Decimal("1.2"), None], pa.decimal128(10, 2)),
    "wide decimal": pa.array([Decimal("1.2"), None], pa.decimal256(60, 2)),
    "fixed binary": pa.array([b"abc", None], pa.binary(3)),
    "binary": pa.array([b"abc", None]),
    "float": pa.array([1.5, None], pa.float32()),
    "uint64": pa.array([2**64 - 1, None], pa.uint64()),
}  # fmt: skip


@pytest.mark.parametrize("kind", NESTED)
def test_its_schema_stays_as_it_is_and_our_files_fit_it(tmp_path: Path, query_there: Query, kind: str) -> None:
    """0.9.0 refuses a log that changes a column in anything, and a file without the metadata that its schema has."""
    root = tmp_path / "t"
    column = pa.field("c", NESTED[kind].type, metadata={"unit": "x"})
    schema = pa.schema(
        [pa.field("ts", pa.timestamp("us")), column, pa.field("n", pa.int64(), nullable=False)], metadata={"owner": "me"}
    )
    first, second = (pa.Table.from_arrays([hours(*at), NESTED[kind], pa.array(at)], schema=schema) for at in ((0, 1), (5, 6)))
    create_there(root).append(first)
    written = next(
        body["logical_schema"] for name, body in actions_of(root) if name == "UpdateTableMeta" and body["logical_schema"]
    )
    assert rows_of_values(gl.open(root).scan().to_arrow()) == rows_of_values(first)
    gl.open(root, upgrade=True).append(second)
    for name, body in actions_of(root):
        assert name != "UpdateTableMeta" or body["logical_schema"] in (None, written)
    both = pa.concat_tables([first, second])
    assert rows_of_values(query_there(root)) == rows_of_values(gl.open(root).scan().to_arrow()) == rows_of_values(both)


def rows_of_values(table: pa.Table) -> list[Any]:
    return list(table.sort_by("n").to_pylist())


def test_a_table_it_created_and_never_wrote_to(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    create_there(root, entity_columns=["sym"])
    table = gl.open(root, upgrade=True)
    assert (table.version, table.schema, table.scan().count()) == (1, None, 0)
    table.append(rows(0, 1, sym=["A", "B"], small=pa.array([1, 2], pa.int8()), late=pa.nulls(2)))
    table.append(rows(2, sym=["A"], late=["x"]))
    assert query_there(root, "select count(*), count(late), sum(small) from t").to_pylist() == [
        {"count(*)": 3, "count(t.late)": 1, "sum(t.small)": 3}
    ]


# -- a writer of its that died -----------------------------------------------------------------------------------------


def wedged(root: Path, commit: bytes | None) -> bytes:
    """Version 3 was written and CURRENT names 2, as a kill between its last two steps leaves it; gives version 3's bytes."""
    table = create_there(root)
    table.append(rows(0, n=[0]))
    current = root / "_timeseries_log" / "CURRENT"
    kept = current.read_bytes()
    table.append(rows(1, n=[1]))
    current.write_bytes(kept)
    path = root / "_timeseries_log" / "0000000003.json"
    whole = path.read_bytes()
    path.write_bytes(whole if commit is None else commit)
    return whole


def test_log_12_a_complete_commit_after_current_is_the_newest_version_and_heals_by_the_next(
    tmp_path: Path, query_there: Query
) -> None:
    root = tmp_path / "t"
    wedged(root, None)
    assert query_there(root).num_rows == 1
    with pytest.raises(ttf.StorageError, match="already exists"):
        ttf.TimeSeriesTable.open(str(root)).append(rows(2, n=[2]))
    table = gl.open(root, upgrade=True)
    assert (table.version, table.scan().count()) == (3, 2)
    with pytest.raises(gl.CoverageOverlap):
        table.append(rows(1, n=[1]))
    assert table.append(rows(2, n=[2])).version == 4
    assert sorted(query_there(root)["n"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_torn_newest_commit_is_an_error_that_names_the_file_and_the_way_out(
    tmp_path: Path, query_there: Query, kept: int
) -> None:
    root = tmp_path / "t"
    whole = wedged(root, b"")
    path = root / "_timeseries_log" / "0000000003.json"
    path.write_bytes(whole[:kept])
    with pytest.raises(CorruptTable, match=r"0000000003\.json") as refused:
        gl.open(root)
    assert refused.value.path == "_timeseries_log/0000000003.json"
    assert "CURRENT names an earlier version" in refused.value.fix
    path.unlink()  # what the error says: 0.9.0 moves CURRENT only once the commit is whole
    table = gl.open(root, upgrade=True)
    assert (table.version, table.scan().count()) == (2, 1)
    table.append(rows(1, n=[1]))
    assert query_there(root).num_rows == 2


def test_its_leftovers_do_not_matter(tmp_path: Path) -> None:
    """What its kills leave: CURRENT.tmp, orphan files, staged folders."""
    root = tmp_path / "t"
    through_everything(root)
    (root / "_timeseries_log" / "CURRENT.tmp").write_bytes(b"8")
    (root / "data" / "_staged" / "update-prepare" / "x").mkdir(parents=True)
    shutil.copy(next((root / "data").rglob("*.parquet")), root / "data" / "_managed" / "append" / "orphan.parquet")
    table = gl.open(root)
    assert (table.version, table.scan().count()) == (7, 10)


def test_a_lost_sidecar_is_said_and_rows_stay_readable(tmp_path: Path) -> None:
    root = tmp_path / "t"
    through_everything(root)
    identities = gl.open(root).identities()
    shutil.rmtree(root / "_coverage")
    table = gl.open(root, upgrade=True)
    assert table.scan().count() == 10
    assert table.identities() == identities, "the log says them, where each segment holds one"
    for ask in (table.coverage, lambda: table.append(rows(1, sym=["A"], v=[1.0]))):
        with pytest.raises(CorruptTable, match="_coverage/segments/segcov-"):
            ask()
    assert gl.open(root).version == 7


# -- releases before 0.5 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "named", "format_version"), [("0.1.4", "0.1 or 0.2", 1), ("0.3.0", "0.3", 2), ("0.4.0", "0.4", 6)]
)
def test_tables_of_releases_before_0_5_are_refused_by_name_and_their_rows_can_move(
    tmp_path: Path, release: str, named: str, format_version: int
) -> None:
    root = FIXTURES / f"ttf-{release}"
    with pytest.raises(
        UnsupportedTable, match=f"timeseries-table-format {named} \\(format_version {format_version}\\)"
    ) as refused:
        gl.open(root)
    assert refused.value.needs == f"format_version {format_version}"
    moved = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h")  # as the error advises
    moved.append_file(root / "data")
    assert moved.scan().to_arrow()["v"].to_pylist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("change", "needs"),
    [
        ({"protocol_version": 8}, "protocol_version 8"),
        ({"required_reader_features": ["row_tombstones"]}, "row_tombstones"),
        ({"format_version": 99}, "format_version 99"),
    ],
)
def test_what_a_newer_release_would_ask_is_refused_by_name(tmp_path: Path, change: dict[str, Any], needs: str) -> None:
    root = tmp_path / "t"
    create_there(root)
    path = root / "_timeseries_log" / "0000000001.json"
    commit = json.loads(path.read_text())
    commit["actions"][0]["UpdateTableMeta"] |= change
    path.write_text(json.dumps(commit))
    with pytest.raises(UnsupportedTable, match=needs.replace("protocol_", "protocol ")) as refused:
        gl.open(root)
    assert refused.value.needs == needs


def test_a_writer_feature_we_do_not_know_lets_us_read_and_not_write(tmp_path: Path) -> None:
    root = tmp_path / "t"
    create_there(root).append(rows(0))
    path = root / "_timeseries_log" / "0000000002.json"
    commit = json.loads(path.read_text())
    commit["actions"][0]["UpdateTableMeta"]["required_writer_features"] = ["row_tombstones"]
    path.write_text(json.dumps(commit))
    table = gl.open(root, upgrade=True)
    assert table.scan().count() == 1
    with pytest.raises(UnsupportedTable, match="row_tombstones"):
        table.append(rows(5))


def test_another_segments_sidecar_is_found_though_it_has_no_checksum(tmp_path: Path) -> None:
    root = tmp_path / "t"
    theirs = create_there(root)
    theirs.append(rows(0, 1))
    theirs.append(rows(8, 9))
    one, other = sorted((root / "_coverage" / "segments").iterdir())
    swapped = one.read_bytes(), other.read_bytes()
    other.write_bytes(swapped[0])
    one.write_bytes(swapped[1])
    table = gl.open(root, upgrade=True)
    assert table.scan().count() == 4
    with pytest.raises(CorruptTable, match="is not that of segment"):
        table.coverage()
    with pytest.raises(CorruptTable, match="is not that of segment"):
        table.append(rows(0))
