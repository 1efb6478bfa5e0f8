"""Columns of a table that change under a source, by each policy: nothing is shifted to another column, and nothing is made up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Cursor, Runner, sink, source
from gapless.connect.sources.protocol import Source
from gapless.errors import InvalidOption, SchemaMismatch
from support.pipelines import KINDS, opened

INDEX = ("n", pa.int64())


@dataclass
class Scene:
    """A table of one kind whose columns have identities, and the changes of columns that both kinds know."""

    kind: str
    place: Path

    @property
    def table(self) -> Any:
        return opened(self.kind, self.place)

    @property
    def alter(self) -> Any:
        return self.table.alter if self.kind == "delta" else self.table

    def append(self, n: int, **columns: Any) -> None:
        self.table.append(pa.table({"n": pa.array([n], pa.int64()), **{name: pa.array([v]) for name, v in columns.items()}}))

    def append_int32(self, n: int, name: str, **columns: Any) -> None:
        """A row whose column `name` has the row's number, as an int32."""
        rows = pa.table({"n": pa.array([n], pa.int64()), **{key: pa.array([v]) for key, v in columns.items()}})
        self.table.append(rows.append_column(name, pa.array([n], pa.int32())).select(self.table.schema.names))

    def widen(self, name: str) -> None:
        if self.kind == "delta":
            self.table.alter.widen(name, pa.int64())
        else:
            self.table.widen_column(name, "int64")

    def source(self, **options: Any) -> Source:
        return source(f"{self.kind}:{self.place}", start="earliest", **options)


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    kind, place = str(request.param), tmp_path / "t"
    schema = pa.schema([pa.field(*INDEX, nullable=False), ("sym", pa.string()), ("x", pa.int32())])
    if kind == "delta":
        properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
        gl.delta.create(place, schema, properties=properties)
    else:
        gl.create(place, index="n", index_type="int64", bucket=1, schema=schema)
    return Scene(kind=kind, place=place)


def history_of_changes(scene: Scene) -> None:
    """SS-11: a row; a column more; a rename; a column less, and wider; a row after each."""
    scene.append_int32(2, "x", sym="A")
    scene.alter.add_column("y", pa.string())
    scene.append_int32(4, "x", sym="A", y="four")
    scene.alter.rename_column("x", "z")
    scene.append_int32(6, "z", sym="A", y="six")
    scene.alter.drop_column("sym")
    scene.append_int32(8, "z", y="eight")
    scene.widen("z")
    scene.append(9, z=2**40, y="nine")


EACH_AS_IT_WAS = [
    {"n": 2, "sym": "A", "x": 2},
    {"n": 4, "sym": "A", "x": 4, "y": "four"},
    {"n": 6, "sym": "A", "z": 6, "y": "six"},
    {"n": 8, "z": 8, "y": "eight"},
    {"n": 9, "z": 2**40, "y": "nine"},
]
DIFFERENCES = [
    ("'y' was added",),
    ("'x' is 'z' now",),
    ("'sym' was dropped",),
    ("'z' was int32 and is int64",),
]


def polls(reader: Source, limit: int | None = 1) -> Iterator[list[dict[str, Any]]]:
    """The rows of each poll, whose schema is the one that was told before it, until nothing comes."""
    while True:
        schema = reader.schema
        polled = reader.poll(limit)
        assert all(batch.schema == schema for batch in polled), "never two schemas in one poll, nor another than was told"
        assert polled.schema_changed == (reader.schema != schema)
        if not polled.rows and not polled.schema_changed:
            return
        yield [row for batch in polled for row in batch.to_pylist()]


@pytest.mark.parametrize("limit", [1, None])
def test_ss_11_error_stops_once_at_each_change_and_goes_on_with_the_columns_of_then(scene: Scene, limit: int | None) -> None:
    history_of_changes(scene)
    reader, given, stops = scene.source(), list[dict[str, Any]](), list[tuple[str, ...]]()
    while True:
        try:
            for rows in polls(reader, limit):
                given += rows
        except SchemaMismatch as stop:
            stops.append(stop.differences)
            with pytest.raises(SchemaMismatch):
                reader.poll()
            at = reader.cursor
            reader = scene.source()
            reader.start(Cursor.from_json(at.to_json()))
        else:
            break
    assert stops == DIFFERENCES
    assert given == EACH_AS_IT_WAS


@pytest.mark.parametrize("limit", [1, None])
def test_ss_11_evolve_changes_the_schema_between_two_polls(scene: Scene, limit: int | None) -> None:
    history_of_changes(scene)
    reader = scene.source(on_schema_change="evolve")
    assert reader.capabilities.evolves
    given = [rows for rows in polls(reader, limit) if rows]
    assert [row for rows in given for row in rows] == EACH_AS_IT_WAS
    assert reader.schema.names == ["n", "z", "y"] if scene.kind == "delta" else sorted(reader.schema.names) == ["n", "y", "z"]
    # The same from each cursor on the way.
    for taken in range(5):
        first = scene.source(on_schema_change="evolve")
        begun: list[dict[str, Any]] = []
        while len(begun) < taken:
            begun += [row for batch in first.poll(1) for row in batch.to_pylist()]
        second = scene.source(on_schema_change="evolve")
        second.start(Cursor.from_json(first.cursor.to_json()))
        assert begun + [row for rows in polls(second, 1) for row in rows] == EACH_AS_IT_WAS


def test_ss_11_evolve_sees_changes_that_come_while_it_runs(scene: Scene) -> None:
    scene.append_int32(2, "x", sym="A")
    reader = scene.source(on_schema_change="evolve")
    assert [row for rows in polls(reader) for row in rows] == EACH_AS_IT_WAS[:1]
    scene.alter.add_column("y", pa.string())
    scene.append_int32(4, "x", sym="A", y="four")
    polled = reader.poll()
    assert (polled.rows, polled.schema_changed, reader.schema.names) == (0, True, ["n", "sym", "x", "y"])
    assert [row for rows in polls(reader) for row in rows] == EACH_AS_IT_WAS[1:2]


def test_ss_11_keep_gives_the_columns_of_the_start_and_stops_where_they_do_not_hold(scene: Scene) -> None:
    history_of_changes(scene)
    reader = scene.source(on_schema_change="keep")
    kept = [
        {"n": 2, "sym": "A", "x": 2},
        {"n": 4, "sym": "A", "x": 4},
        {"n": 6, "sym": "A", "x": 6},
        {"n": 8, "sym": None, "x": 8},
    ]
    given: list[dict[str, Any]] = []
    for _ in range(4):
        given += [row for batch in reader.poll(1) for row in batch.to_pylist()]
        cursor = reader.cursor.to_json()
        assert json.loads(cursor)["state"]["columns"]
        reader = scene.source(on_schema_change="keep")
        reader.start(Cursor.from_json(cursor))
        assert reader.schema.names == ["n", "sym", "x"]
    assert given == kept
    for _ in range(2):
        with pytest.raises(SchemaMismatch, match="'z' was int32 and is int64"):
            reader.poll()
    damaged = Cursor(source="table", state={**reader.cursor.state, "columns": {"x": 1}})
    with pytest.raises(InvalidOption, match="cannot be read"):
        scene.source(on_schema_change="keep").start(damaged)


def test_ss_11_a_column_that_is_dropped_and_one_of_its_name_are_two(scene: Scene) -> None:
    scene.append_int32(1, "x", sym="A")
    scene.alter.drop_column("x")
    scene.alter.add_column("x", pa.int32())
    scene.append_int32(2, "x", sym="B")
    keeping = scene.source(on_schema_change="keep")
    assert [row for rows in polls(keeping, None) for row in rows] == [
        {"n": 1, "sym": "A", "x": 1},
        {"n": 2, "sym": "B", "x": None},
    ]
    evolving = scene.source(on_schema_change="evolve")
    assert [row for rows in polls(evolving, None) for row in rows] == [
        {"n": 1, "sym": "A", "x": 1},
        {"n": 2, "sym": "B", "x": 2},
    ]
    stopping = scene.source()
    assert stopping.poll().rows == 1
    with pytest.raises(SchemaMismatch, match="'x' was dropped"):
        stopping.poll()


def test_ss_11_names_that_changed_places_are_seen_though_they_look_alike(scene: Scene) -> None:
    scene.alter.add_column("w", pa.int32())
    scene.alter.drop_column("sym")
    both = pa.schema([pa.field(*INDEX, nullable=False), ("x", pa.int32()), ("w", pa.int32())])
    scene.table.append(pa.table({"n": [1], "x": [10], "w": [20]}, schema=both))
    begun = scene.table.version
    for old, new in (("x", "v"), ("w", "x"), ("v", "w")):
        scene.alter.rename_column(old, new)
    scene.table.append(pa.table({"n": [2], "x": [21], "w": [11]}, schema=both).select(scene.table.schema.names))
    stopping = source(f"{scene.kind}:{scene.place}", start=begun)
    assert stopping.poll().rows == 1
    with pytest.raises(SchemaMismatch, match="'x' is 'v' now"):
        stopping.poll()
    keeping = source(f"{scene.kind}:{scene.place}", start=begun, on_schema_change="keep")
    assert [row for batch in keeping.poll() for row in batch.to_pylist()] == [
        {"n": 1, "x": 10, "w": 20},
        {"n": 2, "x": 11, "w": 21},
    ]


def test_changes_are_told_in_the_columns_that_are_given(scene: Scene) -> None:
    scene.append_int32(1, "x", sym="A")
    scene.append_int32(2, "x", sym="B")
    scene.alter.rename_column("x", "z")
    scene.alter.drop_column("sym")
    scene.table.delete("n = 1")
    keeping = scene.source(on_schema_change="keep", on_change="tell")
    told = [row for rows in polls(keeping) for row in rows]
    assert told[-1] == {"n": 1, "sym": "A", "x": 1, "_change_type": "delete"}, "the file has it still"
    assert [row["_change_type"] for row in told] == ["insert", "insert", "delete"]
    evolving = scene.source(on_schema_change="evolve", on_change="tell")
    assert [row for rows in polls(evolving) for row in rows][-1] == {"n": 1, "z": 1, "_change_type": "delete"}


def test_ss_11_a_runner_goes_on_with_the_new_columns_and_each_row_is_committed_once(scene: Scene, tmp_path: Path) -> None:
    history_of_changes(scene)
    seen: list[pa.Schema] = []

    def by_name(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.schema)
        return pa.RecordBatch.from_pydict(
            {"n": batch.column("n"), "names": pa.array([",".join(sorted(batch.schema.names))] * batch.num_rows, pa.string())}
        )

    gl.delta.create(tmp_path / "out", pa.schema([("n", pa.int64()), ("names", pa.string())]))
    for rows in (1, 100):
        runner = Runner(
            scene.source(on_schema_change="evolve"),
            by_name,
            {"out": sink(f"delta:{tmp_path / 'out'}", pipeline="p", name="out")},
            CheckpointStore(tmp_path / "checkpoints"),
            checkpoint_rows=rows,
        )
        runner.run(checkpoints=2 if rows == 1 else None)
    found = gl.delta.open(tmp_path / "out").scan().to_arrow().sort_by("n").to_pylist()
    assert found == [{"n": row["n"], "names": ",".join(sorted(row))} for row in EACH_AS_IT_WAS]
    assert seen[-1].names == runner.source.schema.names


def test_ss_11_a_sink_that_does_not_take_the_new_columns_raises_with_the_rows_before_committed(
    scene: Scene, tmp_path: Path
) -> None:
    history_of_changes(scene)
    out = tmp_path / "out"
    gl.delta.create(out, pa.schema([("n", pa.int64()), ("sym", pa.string()), ("x", pa.int32())]))

    def runner() -> Runner:
        sinks = {"out": sink(f"delta:{out}", pipeline="p", name="out")}
        return Runner(scene.source(on_schema_change="evolve"), None, sinks, CheckpointStore(tmp_path / "checkpoints"))

    for _ in range(2):
        with pytest.raises(SchemaMismatch, match="y"):
            runner().run()
        assert gl.delta.open(out).scan().to_arrow().to_pylist() == [{"n": 2, "sym": "A", "x": 2}]
    gl.delta.open(out).alter.add_column("y", pa.string())
    with pytest.raises(SchemaMismatch, match="z"):
        runner().run()
    assert sorted(row["n"] for row in gl.delta.open(out).scan().to_arrow().to_pylist()) == [2, 4]


def test_a_column_that_may_be_null_now_is_another(tmp_path: Path) -> None:
    """Delta's other writers drop NOT NULL."""
    place = tmp_path / "t"
    table = gl.delta.create(place, pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    table.append({"n": [1]})
    log = place / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (metadata,) = [line["metaData"] for line in lines if "metaData" in line]
    metadata["schemaString"] = metadata["schemaString"].replace('"nullable":false', '"nullable":true')
    (place / "_delta_log" / f"{2:020d}.json").write_text(json.dumps({"metaData": metadata}) + "\n")
    gl.delta.open(place).append({"n": pa.array([None], pa.int64())})
    for policy in ("error", "keep"):
        reader = source(f"delta:{place}", start="earliest", on_schema_change=policy)
        assert reader.poll().rows == 1
        with pytest.raises(SchemaMismatch, match="'n' may be null now"):
            reader.poll()
    evolving = source(f"delta:{place}", start="earliest", on_schema_change="evolve")
    assert [row["n"] for rows in polls(evolving) for row in rows] == [1, None]


def test_a_table_with_a_column_of_the_name_of_the_kinds_of_change(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64()), ("_change_type", pa.string())]))
    table.append({"n": [1], "_change_type": ["mine"]})
    with pytest.raises(InvalidOption, match="column '_change_type' of the table's own"):
        source(f"delta:{tmp_path / 't'}", on_change="tell").poll()
    rows = [row for batch in source(f"delta:{tmp_path / 't'}", start="earliest").poll() for row in batch.to_pylist()]
    assert rows == [{"n": 1, "_change_type": "mine"}]
