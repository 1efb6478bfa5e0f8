"""Iceberg's metadata as values: bounds that hold, ids that stay, mappings that lead where they should, few manifests and snapshots."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import parse_mapping_from_json

from gapless.errors import SchemaMismatch, UnsupportedType
from gapless.formats.iceberg.commits import NewSnapshot, Tally
from gapless.formats.iceberg.metrics import TEXT_LENGTH, file_metrics
from gapless.formats.iceberg.schema import FieldIds, check_promotions, iceberg_schema, stored_columns
from gapless.formats.iceberg.snapshots import MANIFEST_ENTRIES, MOST_SNAPSHOTS, Described, expired, merged, operation_of
from gapless.formats.iceberg.types import may_promote, primitive_type
from gapless.model.column_ids import ColumnIds
from gapless.model.stats import Bound, ColumnStats

VALUES: list[tuple[str, st.SearchStrategy[Any]]] = [
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(st.characters(codec="utf-8"), max_size=40)),
    ("binary", st.binary(max_size=40)),
    ("decimal(20, 3)", st.decimals(-(10**16), 10**16, places=3, allow_nan=False)),
    ("date", st.integers(-700_000, 2_900_000)),
    ("timestamptz", st.integers(-(10**18), 10**18)),
]


def metrics_of(type_: str, low: Bound | None, high: Bound | None, nans: int | None = 0) -> tuple[bytes | None, bytes | None]:
    found = file_metrics(10, {"c": ColumnStats(min=low, max=high, nulls=1, nans=nans)}, {"c": (7, type_)})
    return found.lower_bounds.get(7), found.upper_bounds.get(7)


@given(st.data(), st.sampled_from(VALUES))
def test_bounds_that_readers_decode_hold_for_the_values(data: st.DataObject, kind: tuple[str, st.SearchStrategy[Any]]) -> None:
    type_, values = kind
    low, high = sorted((data.draw(values), data.draw(values)))
    below, above = metrics_of(type_, low, high)
    field: Any = Schema.model_validate({"fields": [{"id": 7, "name": "c", "type": type_, "required": False}]}).find_type(7)
    scale = 1_000 if type_ == "timestamptz" else 1
    assert below is not None
    decoded: Any = from_bytes(field, below)
    assert (decoded if scale == 1 else decoded * scale) <= low
    if above is None:
        assert type_ in ("string", "binary")
        assert len(high) > TEXT_LENGTH
    else:
        decoded = from_bytes(field, above)
        assert (decoded if scale == 1 else decoded * scale) >= high
    assert len(below) <= 4 * TEXT_LENGTH


@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        ("boolean", True, b"\1"),
        ("int", -2, b"\xfe\xff\xff\xff"),
        ("long", 1, b"\1" + b"\0" * 7),
        ("date", -1, b"\xff" * 4),
        ("timestamptz", 1_000, b"\1" + b"\0" * 7),
        ("decimal(9, 2)", Decimal("1.28"), b"\0\x80"),
        ("decimal(9, 2)", Decimal("-1.28"), b"\x80"),
        ("fixed[3]", b"abc", b"abc"),
        ("string", "é", "é".encode()),
    ],
)
def test_values_are_written_as_the_spec_says(type_: str, value: Bound, stored: bytes) -> None:
    assert metrics_of(type_, value, value) == (stored, stored)


def test_bounds_that_would_lose_rows_are_left_out() -> None:
    assert metrics_of("double", 1.0, 2.0, nans=1)[1] is None
    assert metrics_of("double", 1.0, 2.0, nans=None)[1] is None
    assert metrics_of("double", math.nan, math.nan) == (None, None)
    assert metrics_of("string", "\U0010ffff" * 20, "\U0010ffff" * 20)[1] is None
    assert metrics_of("binary", b"\xff" * 20, b"\xff" * 20) == (b"\xff" * TEXT_LENGTH, None)
    assert metrics_of("int", 2**40, 2**40) == (None, None)
    assert metrics_of("float", 1e300, 1e300) == (None, None)
    assert metrics_of("decimal(9, 2)", Decimal("1.234"), Decimal("1.234")) == (None, None)
    assert metrics_of("string", 3, 3) == (None, None)
    low, high = metrics_of("double", 0.0, -0.0)
    assert (low, high) == (b"\0" * 7 + b"\x80", b"\0" * 8)
    found = file_metrics(10, {"c": ColumnStats(nulls=None, nans=3)}, {"c": (7, "double")})
    assert (found.value_counts, found.null_counts, found.nan_counts) == ({}, {}, {})


def test_an_id_belongs_to_a_stored_name_for_ever() -> None:
    first = pa.schema(
        [("a", pa.int64()), ("s", pa.struct([("x", pa.int8()), ("l", pa.list_(pa.map_(pa.string(), pa.date32())))]))]
    )
    fields, ids = iceberg_schema(first, ColumnIds(), FieldIds())
    assert ids.by_path[("s", "l", "element", "value")] == ids.last == 7
    renamed = pa.schema([("s", first.field("s").type), ("b", pa.int64()), ("a", pa.string())])
    mapped = ColumnIds(stored={("b",): "a", ("a",): "a~2"})
    again, later = iceberg_schema(renamed, mapped, ids)
    assert [one["id"] for one in again] == [fields[1]["id"], fields[0]["id"], 8]
    assert stored_columns(again, later) == {"a": (fields[0]["id"], "long"), "a~2": (8, "string")}
    assert FieldIds.parse(later.name_mapping(), later.last) == later
    parse_mapping_from_json(later.name_mapping())
    assert later.dropped(again) == []
    assert later.dropped(fields) == [("a~2",)]
    without, _ = iceberg_schema(pa.schema([("s", pa.struct([("x", pa.int8())]))]), ColumnIds(), later)
    assert ("s", "l", "element") in later.dropped(without)


def test_a_mapping_that_leads_elsewhere_is_told() -> None:
    ids = FieldIds(by_path={("a",): 1, ("s",): 2, ("s", "x"): 3, ("a~2",): 4}, last=4)
    assert ids.misled(ids.name_mapping()) == []
    mapping = json.loads(ids.name_mapping())
    mapping[2]["names"] = ["n", "a~2"]
    assert ids.misled(json.dumps(mapping)) == []  # a name that no field has
    mapping[2]["names"] = ["a", "a~2"]
    assert ids.misled(json.dumps(mapping)) == [("a",)]
    del mapping[1]["fields"]
    assert ("s", "x") in ids.misled(json.dumps(mapping))
    for broken in ("", "3", "[1]", '[{"names":[]}]'):
        assert ids.misled(broken) == list(ids.by_path)
    with pytest.raises(ValueError, match="no name mapping"):
        FieldIds.parse("[1]", 0)


def test_what_a_file_holds_besides_has_ids_too() -> None:
    held = pa.schema([("a", pa.int64()), ("gone", pa.list_(pa.struct([("x", pa.int8())])))])
    ids = FieldIds(by_path={("a",): 1}, last=1).with_file(held)
    assert list(ids.by_path) == [("a",), ("gone",), ("gone", "element"), ("gone", "element", "x")]
    assert ids.with_file(held) == ids


def test_types() -> None:
    assert primitive_type(pa.dictionary(pa.int8(), pa.large_string()), "c") == "string"
    assert primitive_type(pa.timestamp("ms", "Europe/Berlin"), "c") == "timestamptz"
    for refused in (pa.uint8(), pa.float16(), pa.timestamp("ns"), pa.time32("s"), pa.decimal256(50, 2), pa.duration("s")):
        with pytest.raises(UnsupportedType, match="'c' of type"):
            primitive_type(refused, "c")
    assert may_promote("decimal(5, 2)", "decimal(9, 2)")
    assert not may_promote("decimal(9, 2)", "decimal(5, 2)")
    assert not may_promote("decimal(5, 1)", "decimal(9, 2)")
    assert not may_promote("long", "int")
    old, ids = iceberg_schema(pa.schema([("s", pa.list_(pa.int32()))]), ColumnIds(), FieldIds())
    for type_, refused_ in ((pa.int64(), False), (pa.float64(), True)):
        new, _ = iceberg_schema(pa.schema([("s", pa.list_(type_))]), ColumnIds(), ids)
        if refused_:
            with pytest.raises(UnsupportedType, match=r"'s\.element' cannot be double"):
                check_promotions(new, old)
        else:
            check_promotions(new, old)
    with pytest.raises(SchemaMismatch, match="one name there"):
        iceberg_schema(pa.schema([("a.b", pa.int8()), ("A", pa.struct([("b", pa.int8())]))]), ColumnIds(), FieldIds())


@given(st.lists(st.integers(1, MANIFEST_ENTRIES), max_size=300))
def test_manifests_become_few_and_none_twice(sizes: list[int]) -> None:
    groups = merged(sizes)
    places = [place for group in groups for place in group]
    assert len(places) == len(set(places))
    assert all(len(group) > 1 and sum(sizes[place] for place in group) <= MANIFEST_ENTRIES for group in groups)
    small = [size for place, size in enumerate(sizes) if size < MANIFEST_ENTRIES // 2 and place not in places]
    assert len(small) < 3 * 32 + len(groups)


def test_many_small_commits_rewrite_each_file_a_few_times() -> None:
    manifests: list[int] = []
    written = 0
    for _ in range(20_000):
        groups = merged(manifests)
        taken = {place for group in groups for place in group}
        new = [sum(manifests[place] for place in group) for group in groups]
        written += sum(new)
        manifests = [size for place, size in enumerate(manifests) if place not in taken] + new + [1]
    assert len(manifests) < 100
    assert written < 3 * 20_000


def test_snapshots_that_leave() -> None:
    many = [Described(snapshot_id=n, version=n) for n in range(100)]
    assert expired(many, earliest=0) == list(range(100 - MOST_SNAPSHOTS + 1))
    assert expired(many[:10], earliest=4, kept_versions=[2]) == [0, 1, 3]
    assert expired([Described(snapshot_id=1, version=None)], earliest=9) == []


def test_summaries() -> None:
    assert operation_of(adds=True, removes=True, changes_rows=False) == "replace"
    assert operation_of(adds=False, removes=False, changes_rows=True) == "replace"
    assert operation_of(adds=True, removes=False, changes_rows=True) == "append"
    assert operation_of(adds=True, removes=True, changes_rows=True) == "overwrite"
    assert operation_of(adds=False, removes=True, changes_rows=True) == "delete"
    snapshot = NewSnapshot(
        snapshot_id=1, parent_id=None, sequence=1, time_ms=1, manifest_list="x", schema_id=0, operation="overwrite", version=5,
        added=Tally(files=2, rows=10, bytes=100), removed=Tally(files=1, rows=3, bytes=40),
        before={"total-records": "7", "total-data-files": "odd"},
    )  # fmt: skip
    told = snapshot.summary()
    assert (told["total-records"], told["total-data-files"], told["total-files-size"]) == ("14", "1", "60")
    assert (told["deleted-data-files"], told["removed-files-size"], told["gapless.version"]) == ("1", "40", "5")
