"""A copy of one table by its changes, a source that tells them into a sink that applies them, equals the source at every version."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Runner, sink, source
from gapless.errors import SchemaMismatch
from support.pipelines import KINDS, SCHEMA, START, made, opened

PAIRS = [(one, other) for one in KINDS for other in KINDS]


def row(hour: int, key: int | None, value: int | None) -> dict[str, Any]:
    return {"ts": START + timedelta(hours=hour), "id": key, "v": value}


def changed(kind: str, place: Path, *, doubled: bool) -> Any:
    """A table with a history of changes of every kind; `doubled` has equal rows, else each `id` is there once at every version."""
    if kind == "timeseries":
        table: Any = made(kind, place)
        table.append([row(n, n, n) for n in range(6)])
        table.upsert([row(9, 2, 20), row(1, 3, 30), row(2, 7, 70)], key="id")  # two rows move, one forward and one back
        table.delete("id = 4")
        if doubled:
            table.append([row(5, 5, 5), row(5, 5, 5), row(5, None, None), row(9, 2, 20)], on_overlap="allow")
            table.upsert([row(9, 2, 21)])  # in the place of two rows
            table.append([row(9, 2, 21), row(9, 2, 22)], on_overlap="allow")
        table.compact()
        table.replace((START, START + timedelta(hours=2)), [row(0, 0, 1), row(1, None, 9)])
        table.upsert([row(9, 0, 50), row(3, 2, 51)], key="id")
        table.delete("true")
        table.append([row(0, 0, 0)])
        return table
    table = gl.delta.create(place, SCHEMA, properties={"delta.enableChangeDataFeed": "true"})
    table.append([row(n, n, n) for n in range(6)])
    table.update({"id": "id + 1"}, where="id < 3" if doubled else "id < 6")  # each row takes another's key
    table.delete("id = 4")
    if doubled:
        table.append([row(5, 5, 5), row(5, 5, 5), row(5, None, None), row(5, None, None)])
        table.delete("id IS NULL AND v IS NULL")
        table.append([row(5, 3, 3), row(5, 3, 3), row(5, None, None)])
    else:
        table.append([row(1, None, 8)])
    table.optimize.compact() if hasattr(table, "optimize") else table.compact()
    merge = table.merge(pa.Table.from_pylist([row(8, 1, 10), row(8, 9, 90), row(8, 5, 5)], SCHEMA), "t.id = s.id")
    merge.when_matched_delete(where="s.id = 5").when_matched_update_all().when_not_matched_insert_all().execute()
    table.overwrite([row(8, 1, 10), row(2, 2, 11), row(3, 4, 12)])
    table.overwrite([row(3, 2, 12)], where="id = 2")
    table.update({"v": None}, where="id = 2")
    return table


def told(view: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(one.values()) for one in view.scan(columns=SCHEMA.names).to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("key", "doubled", "checkpoint_rows"),
    [
        ("id", False, 1000),
        ("*", True, 5),
        *(pytest.param(key, doubled, 2, marks=pytest.mark.soak) for key, doubled in (("id", False), ("*", True), ("*", False))),
    ],
)
@pytest.mark.parametrize(("of", "onto"), PAIRS)
def test_a_copy_by_changes_equals_the_source_at_every_version(
    of: str, onto: str, key: str, doubled: bool, checkpoint_rows: int, tmp_path: Path
) -> None:
    table = changed(of, tmp_path / "of", doubled=doubled)
    made(onto, tmp_path / "onto")
    first = 1 if of == "timeseries" else 0
    late = 0
    for version in range(first, table.version + 1):
        runner = Runner(
            source(f"{of}:{tmp_path / 'of'}", start=first, until=version, on_change="tell"),
            None,
            {"copy": sink(f"{onto}:{tmp_path / 'onto'}", pipeline="copy", name="copy", mode="cdc", key=key)},
            CheckpointStore(tmp_path / "checkpoints"),
            checkpoint_rows=checkpoint_rows,
        )
        commits = runner.run().commits
        late += sum(one.late_rows for one in commits.values())
        assert told(opened(onto, tmp_path / "onto")) == told(table.at(version=version)), version
    assert late == 0
    assert opened(onto, tmp_path / "onto").verify(deep=True).ok


def test_a_unique_series_is_copied_by_its_own_keys(tmp_path: Path) -> None:
    schema = pa.schema([SCHEMA.field("ts"), ("site", pa.string()), ("v", pa.float64())])
    options: dict[str, Any] = {
        "index": "ts",
        "bucket": "1h",
        "entity": ["site"],
        "schema": schema,
        "properties": {"unique": True},
    }
    table = gl.create(tmp_path / "of", **options)
    gl.create(tmp_path / "onto", **options)
    table.append([{"ts": START + timedelta(minutes=n), "site": site, "v": 0.0} for n in range(50) for site in "ab"])
    table.upsert(
        [{"ts": START + timedelta(minutes=n), "site": "a", "v": v} for n, v in ((3, -0.0), (4, float("nan")), (99, 1.0))]
    )
    table.delete("site = 'b'", end=START + timedelta(minutes=10))
    Runner(
        source(f"timeseries:{tmp_path / 'of'}", start=1, on_change="tell"),
        None,
        {"copy": sink(f"timeseries:{tmp_path / 'onto'}", pipeline="copy", name="copy", mode="cdc", order_by="ts")},
        CheckpointStore(tmp_path / "checkpoints"),
        checkpoint_rows=7,
    ).run()
    copied, whole = (
        [list(map(str, one.values())) for one in view.scan(order="index").to_arrow().to_pylist()]
        for view in (gl.open(tmp_path / "onto"), table.refresh())
    )
    assert sorted(copied) == sorted(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_removals_that_meet_no_row_are_counted_and_take_no_other(kind: str, tmp_path: Path) -> None:
    table = made(kind, tmp_path / "t")
    table.append([row(0, 0, 0), row(1, 1, 1)])
    changes = SCHEMA.append(pa.field("_change_type", pa.string()))
    mine = sink(f"{kind}:{tmp_path / 't'}", pipeline="p", name="s", mode="cdc", key="*")
    mine.initialize(changes)
    given = [(row(0, 0, 0), "delete"), (row(0, 0, 0), "delete"), (row(1, 1, 2), "update_preimage"), (row(1, 1, 3), "insert")]
    mine.write(pa.Table.from_pylist([{**one, "_change_type": told_as} for one, told_as in given], changes))
    assert mine.finalize(mine.prepare(1)).late_rows == 2
    assert sorted(table.refresh().scan().to_arrow()["v"].to_pylist()) == [1, 3]


@pytest.mark.parametrize("key", ["id", "*"])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_come_with_changes_come_into_the_table(kind: str, key: str, tmp_path: Path) -> None:
    """Into a Delta table where schema_mode="merge" says so; a series gets them with add_column."""
    table = made(kind, tmp_path / "t")
    table.append([row(0, 0, 0), row(1, 1, 1)])
    wider = pa.schema([*SCHEMA, ("w", pa.float64()), ("_change_type", pa.string())])
    options: dict[str, Any] = {"mode": "cdc", "key": key, "pipeline": "p", "name": "s"}
    with pytest.raises(SchemaMismatch, match="w: not in the table"):
        sink(f"{kind}:{tmp_path / 't'}", **options).initialize(wider)
    if kind == "timeseries":
        table.add_column("w", pa.float64())
    else:
        options["schema_mode"] = "merge"
    mine = sink(f"{kind}:{tmp_path / 't'}", **options)
    mine.initialize(wider)
    given = [(row(1, 1, 1), "delete", None), (row(0, 0, 0), "update_preimage", None), (row(0, 0, 5), "update_postimage", 0.5)]
    mine.write(pa.Table.from_pylist([{**one, "w": w, "_change_type": change} for one, change, w in given], wider))
    assert ("w" in table.refresh().schema.names) is (kind == "timeseries")
    mine.finalize(mine.prepare(1))
    assert table.refresh().scan().to_arrow().to_pylist() == [{**row(0, 0, 5), "w": 0.5}]
    assert table.verify(deep=True).ok
