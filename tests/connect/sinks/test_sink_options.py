"""What a sink takes by its value, and what it refuses before the first row rather than when it is too late."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import PreparedCommit, sink
from gapless.connect.sinks.table.delta_table import DeltaSinkTable
from gapless.connect.sinks.table.series_table import SeriesSinkTable
from gapless.errors import GaplessError, InvalidOption, InvalidValue, PreparedFilesMissing, SchemaMismatch
from support.pipelines import KINDS, SCHEMA, made, opened, rows

START = datetime(2026, 1, 5, tzinfo=UTC)
WIDTHS = pa.schema(
    [
        SCHEMA.field(0),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(10, 2)),
        ("v", pa.float64()),
        ("u", pa.uint8()),
    ]
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def wide(kind: str, path: Path, **options: Any) -> Any:
    schema = WIDTHS if kind == "timeseries" else pa.schema([field for field in WIDTHS if field.name != "u"])
    table = gl.delta.create(path, schema) if kind == "delta" else gl.create(path, index="ts", bucket="1h", schema=schema)
    mine = sink(f"{kind}:{path}", pipeline="orders", name="main", **options)
    mine.initialize(schema)
    return table, mine


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_values_of_undeclared_types_are_taken_by_their_value_as_the_tables_do(kind: str, mode: str, tmp_path: Path) -> None:
    table, mine = wide(kind, tmp_path / "t", mode=mode, **({"key": ["i"]} if mode == "upsert" else {}))
    names = [name for name in table.schema.names if name != "ts"]
    given = {"i": 7, "f": 0.5, "d": Decimal("1.25"), "v": 3, "u": 200}
    row = {"ts": START, **{name: given[name] for name in names}}
    assert mine.write([row]) == 1
    assert mine.write({name: [value] for name, value in {**row, "i": 8}.items()}) == 1
    for wrong in ({"i": 2**40}, {"d": Decimal("1.255")}, {"i": 1.5}):
        with pytest.raises(InvalidValue):
            mine.write([{**row, **wrong}])
    with pytest.raises(SchemaMismatch, match="was told"):
        mine.write([{**row, "i": "x"}])
    declared = pa.table({name: [value] for name, value in row.items()})
    with pytest.raises(SchemaMismatch, match="int32 was told, int64 came"):
        mine.write(declared)
    mine.finalize(mine.prepare(1))
    found = table.refresh().scan(columns=names).to_arrow().to_pylist()
    assert sorted(found, key=lambda one: one["i"]) == [{name: {**given, "i": i}[name] for name in names} for i in (7, 8)]


def test_an_overwrite_of_a_part_is_looked_at_before_it_is_prepared(tmp_path: Path) -> None:
    """Once it is decided to commit a checkpoint, a row beside the part would be refused for ever."""
    made("delta", tmp_path / "t")
    for wrong in ("nope = 3", "id = (", 5):
        with pytest.raises(GaplessError):
            sink(f"delta:{tmp_path / 't'}", pipeline="p", name="s", mode="overwrite", where=wrong).initialize(SCHEMA)
    mine = sink(f"delta:{tmp_path / 't'}", pipeline="p", name="s", mode="overwrite", where="id = 1")
    mine.initialize(SCHEMA)
    with pytest.raises(InvalidValue, match="id = 1"):
        mine.write(rows(0, 3))
    mine.write(rows(1, 1))
    mine.finalize(mine.prepare(1))
    assert opened("delta", tmp_path / "t").scan().to_arrow()["v"].to_pylist() == [1]


def test_options_are_looked_at_before_the_first_row(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    url = f"{kind}:{tmp_path / 't'}"
    for options in ({"spill_bytes": "x"}, {"spill_bytes": 0}, {"create": {"bogus": 1}}, {"create": "x"}):
        with pytest.raises(InvalidOption):
            sink(url, pipeline="p", name="s", **options)
    with pytest.raises(InvalidOption, match="no kind of table"):
        sink(5, pipeline="p", name="s")  # type: ignore[arg-type]  # what is refused
    mine = sink(url, pipeline="p", name="s")
    with pytest.raises(InvalidOption, match="schema"):
        mine.initialize("x")
    with pytest.raises(InvalidOption, match="no prepared commit"):
        mine.finalize("x")  # type: ignore[arg-type]  # what is refused
    if kind == "timeseries":
        create = {"index": "ts", "bucket": "1h", "entity": "id"}
        with pytest.raises(InvalidOption, match="on_overlap='nope' is not known"):
            sink(url, pipeline="p", name="s", on_overlap="nope", create=create).initialize(SCHEMA)


def test_a_commit_that_another_process_finalizes_meanwhile_is_known_though_its_files_are_gone(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one writes the rows anew and removes the prepared files, between the look at the log and that at the files."""
    made(kind, tmp_path / "t").append(rows(0, 2))
    mine, other = (sink(f"{kind}:{tmp_path / 't'}", pipeline="p", name="s", mode="upsert", key=["ts"]) for _ in range(2))
    for one in (mine, other):
        one.initialize(SCHEMA)
    mine.write(rows(1, 2))
    prepared = mine.prepare(1)
    table = SeriesSinkTable if kind == "timeseries" else DeltaSinkTable
    known = table.known

    def late(self: Any, *asked: Any) -> Any:
        found = known(self, *asked)
        monkeypatch.undo()
        assert not other.finalize(prepared).already_committed
        return found

    monkeypatch.setattr(table, "known", late)
    assert mine.finalize(PreparedCommit.from_json(prepared.to_json())).already_committed
    mine.write(rows(3, 1))
    lost = mine.prepare(2)
    mine.abort(lost)
    with pytest.raises(PreparedFilesMissing):
        mine.finalize(lost)
