"""Rows with other columns: by policy, by version, never back, and views that go on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.errors import InvalidValue, NotSupported, SchemaMismatch
from gapless.lake.lake import Lake

CHANGES = {
    "add": ([{"a": 1}], [{"a": 2, "b": 3}], "int64"),
    "widen": (pa.table({"a": pa.array([1], pa.int32())}), pa.table({"a": pa.array([2**40], pa.int64())}), "int64"),
    "text": ([{"a": 1}], [{"a": "n/a"}], "string"),
    "nested": ([{"a": {"x": 1}}], [{"a": {"x": 2, "y": 3}}], "struct<x: int64, y: int64>"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_allowed_refused_or_put_aside(lake: Lake, tmp_path: Path, kind: str) -> None:
    first, second, _ = CHANGES[kind]
    for action in ("allow", "refuse", "quarantine"):
        others = dict.fromkeys({*CHANGES} - {kind}, "refuse" if action == "allow" else "allow")
        table = lake.create_table(action, drift={"add": "allow"})
        lake.run(action, first)
        lake.set_drift(action, {**others, kind: action})
        if action == "refuse":
            with pytest.raises(SchemaMismatch, match="drift policy"):
                lake.run(action, second)
            assert table.count() == 1
            continue
        report = lake.run(action, second)
        changed = table.schema.field("b" if kind == "add" else "a").type if action == "allow" else None
        if action == "allow":
            assert str(changed) == CHANGES[kind][2]
            assert (table.count(), report.schema_version) == (2, 2)
            assert len(table.history.schemas[-1].changes) == 1
        else:
            assert (table.count(), report.quarantined_rows, report.schema_version) == (1, 1, 1)
            (file,) = table.manifests()[-1].quarantined
            aside = pq.read_table(tmp_path / "lake" / table.manifests()[-1].folder / file.path)
            assert aside.num_rows == 1
            assert aside.column("_gapless_reason")[0].as_py()


def test_old_values_are_read_in_the_new_type(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"id": 1, "v": 1.0, "b": True}, {"id": 2, "v": 1e20, "b": None}])
    lake.run("t", [{"id": 3, "v": "n/a", "b": "maybe"}])
    lake.run("t", [{"id": 4, "v": 2.0, "b": False}])
    found = {row["id"]: (row["v"], row["b"]) for row in table.to_arrow().to_pylist()}
    assert found == {1: ("1.0", "true"), 2: ("1e+20", None), 3: ("n/a", "maybe"), 4: ("2.0", "false")}


def test_whole_numbers_become_doubles_where_all_are_exact(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"v": 2**53}])
    lake.run("t", [{"v": 0.5}])
    assert sorted(table.to_arrow().column("v").to_pylist()) == [0.5, 2.0**53]
    with pytest.raises(InvalidValue, match="exactly"):
        lake.run("t", [{"v": 2**53 + 1}])
    other = lake.create_table("o")
    lake.run("o", [{"v": 2**53 + 1}])
    lake.run("o", [{"v": 0.5}])
    assert sorted(other.to_arrow().column("v").to_pylist()) == ["0.5", str(2**53 + 1)]


def test_a_column_of_nulls_gets_its_type_from_the_first_value(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"a": 1, "b": None}])
    assert pa.types.is_null(table.schema.field("b").type)
    assert table.to_arrow().to_pylist() == [{"a": 1}]
    lake.run("t", [{"a": 2, "b": "x"}])
    lake.run("t", [{"a": 3, "b": None}])
    assert sorted(map(str, table.to_arrow().to_pylist())) == [
        "{'a': 1, 'b': None}",
        "{'a': 2, 'b': 'x'}",
        "{'a': 3, 'b': None}",
    ]
    frozen = lake.create_table("f", drift={"add": "allow"})
    lake.run("f", [{"a": 1}])
    lake.set_drift("f", "freeze")
    lake.run("f", [{"a": 2, "gone": None}])
    assert frozen.to_arrow().column_names == ["a"]


def test_what_no_type_holds_is_refused_or_put_aside(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"a": 1}])
    with pytest.raises(SchemaMismatch, match="no type holds both"):
        lake.run("t", [{"a": {"x": 1}}])
    lake.set_drift("t", "quarantine")
    assert lake.run("t", [{"a": {"x": 1}}, {"a": None}]).quarantined_rows == 1
    assert table.count() == 2


def test_versions_only_grow_whatever_comes(lake: Lake) -> None:
    table = lake.create_table("t")
    rows: list[dict[str, object]] = [{"a": 1}, {"b": 1}, {"a": "x"}, {"a": 2, "c": {"d": 1}}, {"c": {"e": 1}}, {"b": 0.5}]
    seen = []
    for row in rows:
        lake.run("t", [row])
        seen.append((table.history.schema.version, table.schema))
        assert table.to_arrow().num_rows == len(seen)
    assert [version for version, _ in seen] == sorted(version for version, _ in seen)
    for (_, before), (_, after) in pairwise(seen):
        assert set(before.names) <= set(after.names)
    assert [one.version for one in table.history.schemas] == list(range(1, len(table.history.schemas) + 1))


def test_two_runs_that_bring_columns_at_once_agree(lake: Lake) -> None:
    table = lake.create_table("t")

    def meanwhile(_: object) -> list[dict[str, int]]:
        lake.run("t", [{"b": 1, "c": 1}])
        return [{"a": 1, "c": 2}]

    lake.run("t", meanwhile)
    assert sorted(table.schema.names) == ["a", "b", "c"]
    assert sorted(map(str, table.to_arrow().select(["a", "b", "c"]).to_pylist())) == [
        "{'a': 1, 'b': None, 'c': 2}",
        "{'a': None, 'b': 1, 'c': 1}",
    ]


def test_tables_with_a_log_get_columns_and_no_other_types(lake: Lake) -> None:
    lake.create_table("t", kind="delta")
    lake.run("t", [{"a": 1}])
    lake.run("t", [{"a": 2, "b": "x"}])
    with pytest.raises((SchemaMismatch, NotSupported)):
        lake.run("t", [{"a": "n/a"}])
    lake.set_drift("t", "quarantine")
    assert lake.run("t", [{"a": "n/a", "b": "y"}, {"a": None, "b": "z"}]).quarantined_rows == 1
    assert lake.table("t").count() == 3
