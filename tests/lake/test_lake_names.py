"""Names of tables, nodes, runs and columns."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import InvalidOption, SchemaMismatch, TableNotFound, UnreadableInput
from gapless.lake.lake import Lake
from gapless.lake.layout.names import check_table_name, map_columns, ulid
from gapless.lake.opening import open_lake

_COLUMN = re.compile(r"[a-z_][a-z0-9_]{0,62}")
COLLIDING = [
    [{"na!e": "Max", "na%e": "Germany"}],
    [{"Col A": 1, "col_a": 2}],
    [{"Aa": 1, "aA": 2}],
    [{"col_a": 1, "col_a ": 2, "col_a_1": 3}],
]


@pytest.mark.parametrize("rows", COLLIDING)
def test_run_01_colliding_fields_keep_all_their_values(lake: Lake, rows: list[dict[str, object]]) -> None:
    for number, names in enumerate(permutations(rows[0])):
        name = f"t{number}"
        lake.create_table(name)
        lake.run(name, [{one: rows[0][one] for one in names}])
        lake.run(name, [{one: rows[0][one] for one in reversed(names)}])
    tables = [lake.table(name) for name in lake.tables()]
    (manifest, again) = tables[0].manifests()
    assert manifest.columns == again.columns
    assert {json.dumps(dict(one.columns), sort_keys=True) for table in tables for one in table.manifests()} == {
        json.dumps(dict(manifest.columns), sort_keys=True)
    }
    for table in tables:
        for row in table.to_arrow().to_pylist():
            assert {field: row[column] for field, column in manifest.columns.items()} == rows[0]


def test_run_01_a_later_field_takes_no_column_that_is_there(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"Col A": 1}])
    lake.run("t", [{"col_a": 2, "COL A": 3}])
    first, second = table.manifests()
    assert first.columns.items() <= second.columns.items()
    assert len(set(second.columns.values())) == 3
    seen = {field: {row[column] for row in table.to_arrow().to_pylist()} - {None} for field, column in second.columns.items()}
    assert seen == {"Col A": {1}, "col_a": {2}, "COL A": {3}}


def test_run_02_fields_that_normalise_to_nothing_have_names(lake: Lake) -> None:
    row = {name: number for number, name in enumerate(["", " ", "__", "-_-", "%", "()", "😀", "1", "select"])}
    table = lake.create_table("t")
    lake.run("t", [row])
    (manifest,) = table.manifests()
    assert len(set(manifest.columns.values())) == len(row)
    assert all(_COLUMN.fullmatch(column) for column in manifest.columns.values())
    (found,) = table.to_arrow().to_pylist()
    assert {field: found[column] for field, column in manifest.columns.items()} == row


def test_run_02_a_field_without_a_name_is_refused(lake: Lake) -> None:
    lake.create_table("t")
    with pytest.raises(UnreadableInput):
        lake.run("t", [{None: 1}])
    assert lake.table("t").manifests() == ()


def test_run_11_separators_in_names_make_distinct_columns(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"cat__rows": [{"v": 1}], "cat": {"rows": [{"v": 2}]}, "a.b": 1, "a": {"b": 2}}])
    assert table.to_arrow().to_pylist() == [{"cat__rows": [{"v": 1}], "cat": {"rows": [{"v": 2}]}, "a_b": 1, "a": {"b": 2}}]


def test_run_11_what_is_said_of_a_table_that_is_not_there_raises(lake: Lake) -> None:
    lake.create_table("orders")
    for act in (lambda: lake.set_drift("orderz", "freeze"), lambda: lake.run("orderz", [{"a": 1}])):
        with pytest.raises(TableNotFound, match="orders"):
            act()
    with pytest.raises(InvalidOption, match="kind of change"):
        lake.set_drift("orders", {"wide": "allow"})


def test_run_01_names_in_a_struct_that_differ_in_case_are_refused(lake: Lake) -> None:
    lake.create_table("t")
    with pytest.raises(SchemaMismatch, match="case"):
        lake.run("t", [{"s": {"Aa": 1, "aA": 2}}])


@pytest.mark.parametrize("name", ["", "Orders", "or ders", "a/b", "..", "1a", "_hidden", "a" * 64, "é", None])
def test_names_that_no_folder_and_view_could_share_are_refused(lake: Lake, name: str) -> None:
    with pytest.raises(InvalidOption, match="no name of a table"):
        lake.create_table(name)


@pytest.mark.parametrize("node", ["", "A", "a/b", ".", "a b", None])
def test_names_of_nodes(lake: Lake, tmp_path: Path, node: str) -> None:
    with pytest.raises(InvalidOption, match="node"):
        open_lake(tmp_path / "lake", node=node)


@given(st.lists(st.text(max_size=70), unique=True, max_size=8), st.randoms())
def test_the_mapping_of_fields_to_columns(fields: list[str], random: object) -> None:
    fields = [one for one in fields if one.isprintable()]
    mapping = map_columns(fields)
    shuffled = list(fields)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert map_columns(shuffled) == mapping
    assert len(set(mapping.values())) == len(fields)
    assert all(_COLUMN.fullmatch(column) for column in mapping.values())
    half = map_columns(fields[: len(fields) // 2])
    assert map_columns(fields, half).items() >= half.items()


def test_ulids_sort_as_their_times() -> None:
    made = [ulid(time_ms, 2**80 - 1 - time_ms) for time_ms in (0, 1, 31, 32, 1_700_000_000_000)]
    assert made == sorted(made)
    assert {len(one) for one in made} == {26}
    assert check_table_name("a1_") == "a1_"
