"""What a source tells of commits that changed rows, of both kinds of tables and with and without a change data feed; and what it catches up with."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import Cursor, source
from gapless.errors import CorruptTable, InvalidOption, SchemaMismatch, VersionNotFound
from support.pipelines import KINDS, SCHEMA, made, opened, rows

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
TABLES = {
    "timeseries": ("timeseries", {}),
    "delta": ("delta", {}),
    "delta with vectors": ("delta", VECTORS),
    "delta with a feed": ("delta", FEED),
    "delta with both": ("delta", FEED | VECTORS),
}


@pytest.fixture(params=TABLES)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    """An empty table, and its URL."""
    kind, properties = TABLES[str(request.param)]
    place = tmp_path / "t"
    table = gl.delta.create(place, SCHEMA, properties=properties) if kind == "delta" else made(kind, place)
    return f"{kind}:{place}", table


def told(reader: Any, limit: int | None = None) -> list[tuple[str, int, int]]:
    """(kind of change, id, v) of all rows that come now."""
    found: list[tuple[str, int, int]] = []
    while (polled := reader.poll(limit)).rows:
        assert limit is None or polled.rows <= limit
        assert all(batch.schema == reader.schema for batch in polled)
        found += [(row["_change_type"], row["id"], row["v"]) for batch in polled for row in batch.to_pylist()]
    return found


def replayed(changes: list[tuple[str, int, int]]) -> Counter[tuple[int, int]]:
    """What a table holds that takes these changes, one after the other; taking away what is not there fails."""
    held: Counter[tuple[int, int]] = Counter()
    for kind, *row in changes:
        key = (row[0], row[1])
        if kind in ("insert", "update_postimage"):
            held[key] += 1
        else:
            assert held[key] > 0, f"{kind} of {row}, which is not there"
            held[key] -= 1
    return +held


def held(table: Any) -> Counter[tuple[int, int]]:
    return Counter((row["id"], row["v"]) for row in table.refresh().scan().to_arrow().to_pylist())


def changed_at_random(table: Any, seed: int) -> None:
    """One commit of some kind."""
    pick = random.Random(seed)
    first = pick.randrange(0, 40)
    match pick.randrange(5):
        case 0 | 1:
            table.append(rows(100 + 50 * seed, pick.randrange(1, 6)))
        case 2:
            table.delete(f"v = {first}")
        case 3:
            table.delete(f"v >= {first} and v < {first + 7}")
        case _:
            upserted(table, first, 4, 90 + seed)


def upserted(table: Any, first: int, count: int, id_: int) -> None:
    """Rows in the place of those of the same time, with another id."""
    came = rows(first, count).set_column(1, "id", pa.array([id_] * count))
    if isinstance(table, gl.delta.DeltaTable):
        table.merge(came, "t.ts = s.ts").when_matched_update_all().when_not_matched_insert_all().execute()
    else:
        table.upsert(came)


def test_what_is_told_makes_the_table_at_every_version(scene: tuple[str, Any]) -> None:
    url, table = scene
    table.append(rows(0, 40))
    reader, changes = source(url, start="earliest", on_change="tell"), list[tuple[str, int, int]]()
    for seed in range(14):
        changed_at_random(table, seed)
        if seed % 5 == 4:
            table.compact()
        changes += told(reader, 7)
        assert replayed(changes) == held(table)
    assert {kind for kind, *_ in changes} >= {"insert", "delete"} or {kind for kind, *_ in changes} >= {"update_preimage"}
    again = source(url, start="earliest", on_change="tell")
    assert told(again) == changes
    # From a cursor after each poll, the same goes on.
    walking, given = source(url, start="earliest", on_change="tell"), list[tuple[str, int, int]]()
    while len(given) < len(changes):
        more = source(url, on_change="tell")
        more.start(Cursor.from_json(walking.cursor.to_json()))
        given += [(row["_change_type"], row["id"], row["v"]) for batch in more.poll(9) for row in batch.to_pylist()]
        walking = more
    assert given == changes


def test_rows_that_only_moved_are_not_told(scene: tuple[str, Any]) -> None:
    """A file of many rows of which one goes, or changes: rows that were written anew beside it are no change."""
    url, table = scene
    table.append(rows(0, 20))
    begun = table.version + 1
    table.delete("v = 3")
    upserted(table, 4, 1, 77)
    changes = told(source(url, start=begun, on_change="tell"))
    assert [(kind.removeprefix("update_"), *row) for kind, *row in changes] in (
        [("delete", 3, 3), ("delete", 4, 4), ("insert", 77, 4)],
        [("delete", 3, 3), ("preimage", 4, 4), ("postimage", 77, 4)],
    )


def test_skip_leaves_out_the_whole_commit_and_error_stops_at_it(scene: tuple[str, Any]) -> None:
    url, table = scene
    table.append(rows(0, 4))
    table.delete("v = 1")
    upserted(table, 2, 1, 77)
    table.append(rows(4, 1))

    def values(reader: Any) -> list[int]:
        return [value for batch in reader.poll() for value in batch.column("v").to_pylist()]

    assert values(source(url, start="earliest", on_change="skip")) == [0, 1, 2, 3, 4]
    stopped = source(url, start="earliest")
    assert values(stopped) == [0, 1, 2, 3]
    for _ in range(2):
        with pytest.raises(InvalidOption, match="changed rows"):
            stopped.poll()


def test_rows_that_are_there_twice_are_told_as_often_as_they_went(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64()), ("x", pa.float64())]))
    nan = float("nan")
    table.append({"n": [1, 1, 1, 2, 3], "x": [nan, nan, None, 0.0, -0.0]})
    table.overwrite({"n": [3, 1, 4, 2], "x": [-0.0, nan, 1.0, -0.0]})
    reader = source(f"delta:{tmp_path / 't'}", start=2, on_change="tell")
    changes = [(row["_change_type"], row["n"], repr(row["x"])) for batch in reader.poll() for row in batch.to_pylist()]
    assert sorted(changes[:3]) == [("delete", 1, "None"), ("delete", 1, "nan"), ("delete", 2, "0.0")]
    assert sorted(changes[3:]) == [("insert", 2, "-0.0"), ("insert", 4, "1.0")]


def test_partition_columns_are_there_however_rows_are_told(tmp_path: Path) -> None:
    for name, properties in TABLES.values():
        if name == "timeseries":
            continue
        place = tmp_path / str(len(properties) + 10 * ("delta.enableChangeDataFeed" in properties))
        table = gl.delta.create(place, SCHEMA, partition_by=["id"], properties=properties)
        table.append(rows(0, 10))
        table.delete("id = 2")
        table.delete("v = 4")
        table.append(rows(10, 5))
        changes = told(source(f"delta:{place}", start="earliest", on_change="tell"), 3)
        assert replayed(changes) == held(table)
        assert [row for kind, *row in changes if kind == "delete"] == [[2, 2], [2, 7], [4, 4]]
        # All rows of a version, and what commits added, have them too.
        whole = [row for batch in source(f"delta:{place}").poll() for row in batch.to_pylist()]
        assert Counter((row["id"], row["v"]) for row in whole) == held(table)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_source_that_is_25_versions_behind_catches_up_in_bounded_polls(kind: str, tmp_path: Path) -> None:
    table = made(kind, tmp_path / "t")
    reader = source(f"{kind}:{tmp_path / 't'}")
    assert reader.poll(10).rows == 0
    for at in range(25):
        table.append(rows(at * 4, 4))
        if at == 12:
            table.compact()
    found: list[int] = []
    for polls in range(1, 100):  # noqa: B007
        polled = reader.poll(10)
        assert polled.rows <= 10
        found += [value for batch in polled for value in batch.column("v").to_pylist()]
        if not polled.rows:
            break
    assert found == [*range(100)]
    assert polls == 11


def test_a_table_larger_than_the_poll_limit_ends(kind: str, tmp_path: Path) -> None:
    table = made(kind, tmp_path / "t")
    table.append(rows(0, 1000))
    reader, polls = source(f"{kind}:{tmp_path / 't'}", mode="batch"), 0
    while not reader.ended:
        assert reader.poll(300).rows > 0
        polls += 1
    assert polls == 4
    assert reader.poll(300).rows == 0


def test_a_table_that_is_made_anew_under_a_running_source_is_an_error(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = made(kind, place)
    table.append(rows(0, 3))
    reader = source(f"{kind}:{place}")
    assert reader.poll().rows == 3
    shutil.rmtree(place)
    again = made(kind, place)
    for at in range(3, 9):
        again.append(rows(at, 1))
    for _ in range(2):
        with pytest.raises(VersionNotFound, match="another one made in its place"):
            reader.poll()
    shutil.rmtree(place)
    with pytest.raises((CorruptTable, VersionNotFound, gl.CallError)):
        reader.poll()


def test_a_delta_table_that_another_engine_replaced_is_another_table(tmp_path: Path) -> None:
    """`CREATE OR REPLACE TABLE` goes on in the log, under a new id."""
    import json

    place = tmp_path / "t"
    made("delta", place).append(rows(0, 3))
    reader = source(f"delta:{place}", on_change="skip")
    assert reader.poll().rows == 3
    first = [json.loads(line) for line in (place / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    (metadata,) = [line["metaData"] for line in first if "metaData" in line]
    metadata["id"] = "another"
    (place / "_delta_log" / f"{2:020d}.json").write_text(json.dumps({"metaData": metadata}) + "\n")
    with pytest.raises(VersionNotFound, match="another one made in its place, with the id another"):
        reader.poll()


def test_rows_from_before_a_change_of_types_are_not_told_in_types_that_do_not_hold_them(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64()), ("x", pa.string())]))
    table.append({"n": [1], "x": ["one"]})
    table.overwrite({"n": [2], "x": [2]}, schema_mode="overwrite")
    reader = source(f"delta:{tmp_path / 't'}", start=2, on_change="tell", on_schema_change="evolve")
    with pytest.raises(SchemaMismatch, match="'x' was string and is long"):
        reader.poll()
    assert opened("delta", tmp_path / "t").version == 2
