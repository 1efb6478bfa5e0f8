"""Identities by number are those that Python finds, row by row, whatever their types and however they lie in memory."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.files.sort import identity_codes
from gapless.files.sort import identity_codes as stretches
from gapless.files.sort.identity_codes import identified, looked_up

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.sampled_from(["", "a", "b", "ab", "é", "z", "\U0001f600", "￿"])),
    "small": (pa.int8(), st.integers(-128, 127)),
    "large": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 7, 2**63 - 1])),
    "top": (pa.uint64(), st.sampled_from([0, 2**63, 2**64 - 1])),
    "day": (pa.date32(), st.dates(date(1969, 12, 30), date(1970, 1, 3))),
    "flag": (pa.bool_(), st.booleans()),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of up to three such columns, in chunks that begin anywhere in their memory."""
    names = draw(st.lists(st.sampled_from(list(TYPES)), unique=True, max_size=3))
    chunks = []
    for _ in range(draw(st.integers(1, 3))):
        rows, skip = draw(st.integers(0, 12)), draw(st.integers(0, 2))
        columns = [
            pa.array(draw(st.lists(TYPES[name][1], min_size=rows + skip, max_size=rows + skip)), TYPES[name][0])
            for name in names
        ]
        chunks.append(pa.table([*columns, pa.array(range(rows + skip), pa.int64())], names=[*names, "row"]).slice(skip))
    return pa.concat_tables(chunks)


def check(table: pa.Table, entity: tuple[str, ...]) -> None:
    rows = list(zip(*(table[name].to_pylist() for name in entity), strict=True)) if entity else [()] * table.num_rows
    found = identified(table, entity)
    assert list(found.identities) == (sorted(set(rows)) if entity else [()])
    assert [found.identities[code] for code in found.codes.tolist()] == rows
    assert len(found.components) == len(entity)
    for place, (name, one) in enumerate(zip(entity, found.components, strict=True)):
        assert one.values.type == table.schema.field(name).type
        assert one.values.to_pylist() == sorted({row[place] for row in rows})
        assert [one.values[rank].as_py() for rank in one.ranks.tolist()] == [identity[place] for identity in found.identities]


@pytest.fixture(params=["told", "at once", "in parts"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows as a test has, taken as few and as many."""
    if request.param != "told":
        monkeypatch.setattr(identity_codes, "_TOLD_ROWS", 0)
        monkeypatch.setattr(identity_codes, "_FEW_VALUES", 3)
    if request.param == "in parts":
        monkeypatch.setattr(identity_codes, "_FEW_ROWS", 0)
        monkeypatch.setattr("gapless.files.sort.identity_codes.WORTH_THREADS_BYTES", 0)
        monkeypatch.setattr("gapless.runtime.concurrency.WORTH_THREADS_BYTES", 0)


@pytest.mark.usefixtures("many")
@settings(max_examples=150, deadline=None)
@given(tables())
def test_identities_are_those_of_the_rows(table: pa.Table) -> None:
    check(table, tuple(table.column_names[:-1]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "", "ab"]), st.integers(1, 4)), min_size=1, max_size=12), st.integers(1, 5)
)
def test_stretches_of_one_value_are_numbered_as_their_rows_are(stretches: list[tuple[str, int]], chunk: int) -> None:
    values = [value for value, count in stretches for _ in range(count)]
    column = pa.chunked_array([values[at : at + chunk] for at in range(0, len(values), chunk)], pa.string())
    by_row, by_stretch = (identity_codes._ranked(column, way) for way in (identity_codes._encoded, identity_codes._stretches))
    assert by_row[0].tolist() == by_stretch[0].tolist()
    assert by_row[1].equals(by_stretch[1])


@pytest.mark.parametrize("rarely", [0, 2, 64])
@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([pa.string(), pa.int16(), pa.bool_(), pa.date32(), pa.uint64()]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=12),
    st.integers(0, 3),
)
def test_changes_of_value_are_found(rarely: int, kind: pa.DataType, rows: list[tuple[int, int]], skip: int) -> None:
    told: dict[pa.DataType, list[Any]] = {pa.string(): ["", "a", "b", "éa"], pa.bool_(): [True, False, True, False]}
    values = [told.get(kind, [0, 1, 2, 3])[value] for value, count in rows for _ in range(count)]
    usual = stretches._RARELY, stretches._BLOCK_ROWS
    stretches._RARELY, stretches._BLOCK_ROWS = rarely, 4
    try:
        found = stretches.first_rows(pa.array(values, kind).slice(skip))
    finally:
        stretches._RARELY, stretches._BLOCK_ROWS = usual
    values = values[skip:]
    assert found.tolist() == [row for row in range(len(values)) if not row or values[row] != values[row - 1]]


def test_a_long_sorted_column_is_taken_by_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [f"S{number // 4_000}" for number in range(20_000)]
    table = pa.table({"k": pa.chunked_array([values[:7], values[7:]])})
    rows, encode = [], identity_codes._encoded

    def counted(column: pa.ChunkedArray) -> Any:
        rows.append(len(column))
        return encode(column)

    monkeypatch.setattr(identity_codes, "_encoded", counted)
    check(table, ("k",))
    assert rows == [6]


@pytest.mark.parametrize("count", [255, 256, 257, 65_535, 65_536, 65_537])
def test_codes_are_as_wide_as_so_many_identities_need(count: int) -> None:
    table = pa.table(
        {"one": [7] * count, "k": list(range(count))[::-1], "two": [True, False] * (count // 2) + [True] * (count % 2)}
    )
    for entity in (("k",), ("one", "k"), ("k", "one"), ("k", "two")):
        check(table, entity)
    assert identified(table, ("k",)).codes.itemsize == (1 if count <= 256 else 2 if count <= 65_536 else 8)


def test_more_pairs_than_rows_are_numbered_too() -> None:
    check(pa.table({"a": list(range(400)), "b": list(range(400))[::-1]}), ("a", "b"))


def test_what_stands_at_places_is_looked_up() -> None:
    codes = identified(pa.table({"a": [3, 1, 3]}), ("a",)).codes
    assert looked_up(codes[::-1].copy(), codes).tolist() == [0, 1, 0]
