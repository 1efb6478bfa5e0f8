"""Variants that are shredded as they are written, and those in structs, lists and maps that others shredded."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import CorruptTable, InvalidChange, InvalidOption, UnsupportedTable
from gapless.files.read import row_group_batches
from gapless.formats.delta.variant.declared import SHREDDING, parse_shredding
from gapless.formats.delta.variant.decode import decode_variant
from gapless.formats.delta.variant.encode import encode_variant
from gapless.formats.delta.variant.shred import shred_variant
from gapless.tables.delta.table import DeltaTable
from support.hand_made import Hand, column, lay, struct

VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
SCHEMA = pa.schema([("id", pa.int64()), pa.field("v", VARIANT, metadata={b"delta.type": b"variant"})])
PATHS = "a long, b.c string, b.d decimal(20,2), b.t timestamp, day date, ok boolean, x double, raw binary, b.n timestamp_ntz"
ON = {"delta.enableVariantShredding": True, f"{SHREDDING}v": PATHS}


def variants(values: list[Any]) -> pa.Array:
    """Variants of values; none where one is `...`."""
    rows = [None if one is ... else dict(zip(("metadata", "value"), encode_variant(one), strict=True)) for one in values]
    return pa.array(rows, VARIANT)


def rows(values: list[Any], first: int = 0) -> pa.Table:
    return pa.Table.from_arrays([pa.array(range(first, first + len(values)), pa.int64()), variants(values)], schema=SCHEMA)


def held(table: DeltaTable) -> dict[int, Any]:
    found = table.scan().to_arrow().to_pylist()
    return {row["id"]: ... if row["v"] is None else decode_variant(**row["v"]) for row in found}


def stored(place: Path) -> list[dict[str, Any]]:
    """The column as its files have it, in the order of ids, for another reader of Parquet."""
    found = pa.concat_tables(pq.read_table(file) for file in place.glob("*.parquet"))
    rows: list[dict[str, Any]] = found.sort_by("id").column("v").to_pylist()
    return rows


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=3) | st.binary(max_size=3) | st.dates()
    | st.decimals(-(10**6), 10**6, places=2) | st.decimals(-9, 9, places=3) | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC)) | st.times() | st.uuids()
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c", "d", "t", "day", "ok", "x", "raw", "n", "z", "é"])
DOCUMENTS = st.recursive(
    SCALARS, lambda one: st.dictionaries(NAMES, one, max_size=5) | st.lists(one, max_size=3), max_leaves=12
)


@settings(max_examples=150, deadline=None)
@given(values=st.lists(st.just(...) | DOCUMENTS, min_size=1, max_size=6))
def test_any_variants_come_back_out_of_their_parts(values: list[Any]) -> None:
    shape = parse_shredding(PATHS)
    with TemporaryDirectory() as place:
        table = gl.delta.create(Path(place) / "t", SCHEMA, properties=ON)
        table.append(rows(values))
        assert repr(held(table)) == repr(
            {at: ... if one is ... else decode_variant(*encode_variant(one)) for at, one in enumerate(values)}
        )
        for one in stored(Path(place) / "t"):
            assert set(one or {}) in (set(), {"metadata", "value", "typed_value"})
        assert shape.shred(variants(values)).to_pylist() == stored(Path(place) / "t")


def test_what_has_the_type_of_its_path_lies_in_a_column_and_all_else_stays(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, properties=ON)
    day = dt.date(2026, 1, 5)
    values = [
        {"a": 7, "b": {"c": "x", "d": Decimal("1.50"), "more": 1}, "day": day, "rest": [1]},
        {"a": "seven", "b": 5, "x": 1.5},
        [1],
        {},
        ...,
        None,
    ]
    table.append(rows(values))
    first, second, third, empty, null, of_null = stored(tmp_path / "t")
    typed = first["typed_value"]
    assert typed["a"] == {"value": None, "typed_value": 7}
    assert typed["day"] == {"value": None, "typed_value": day}
    assert typed["b"]["typed_value"]["d"]["typed_value"] == Decimal("1.50")
    assert typed["ok"] == {"value": None, "typed_value": None}
    assert decode_variant(first["metadata"], first["value"]) == {"rest": [1]}
    assert decode_variant(first["metadata"], typed["b"]["value"]) == {"more": 1}
    assert decode_variant(second["metadata"], second["typed_value"]["a"]["value"]) == "seven"
    assert second["typed_value"]["b"]["typed_value"] is None
    assert third["typed_value"] is None
    assert null is None
    assert (empty["value"], of_null["value"]) == (None, b"\x00")
    log = (tmp_path / "t" / "_delta_log" / f"{0:020}.json").read_text()
    assert '"readerFeatures":["variantShredding","variantType"]' in log


def test_tables_of_shredded_variants_are_changed_like_others(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, properties=ON | {"delta.enableChangeDataFeed": True})
    values: list[Any] = [{"a": at, "b": {"c": f"k{at}"}} for at in range(6)]
    table.append(rows(values[:3]))
    table.append(rows(values[3:], first=3))
    table.delete("id = 1")
    table.merge(rows([{"a": "new"}, ...], first=2), "t.id = s.id").when_matched_update_all().execute()
    table.compact()
    wanted = {0: values[0], 2: {"a": "new"}, 3: ..., 4: values[4], 5: values[5]}
    assert held(table) == wanted
    told = [(row["id"], row["_change_type"]) for row in table.changes(3).to_arrow().to_pylist()]
    assert sorted(told) == [
        (1, "delete"), (2, "update_postimage"), (2, "update_preimage"), (3, "update_postimage"), (3, "update_preimage"),
    ]  # fmt: skip
    table.alter.unset_properties([f"{SHREDDING}v"])
    table.append(rows([{"a": 1}], first=9))
    assert held(table) == wanted | {9: {"a": 1}}
    assert any(
        "typed_value" not in (one or {"typed_value": 0})
        for file in (tmp_path / "t").glob("*.parquet")
        for one in pq.read_table(file).column("v").to_pylist()
    )


def test_a_filter_on_a_shredded_path_opens_fewer_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    read = row_group_batches.read_row_group_batches

    def counting(store: Any, pieces: Any, **options: Any) -> Any:
        pieces = list(pieces)
        numbers.extend(number for piece in pieces for number in piece.numbers)
        return read(store, iter(pieces), **options)

    monkeypatch.setattr("gapless.tables.delta.files.reading.read_row_group_batches", counting)
    values = [{"a": at, "b": {"c": f"k{at:03}"}, "free": at} for at in range(100)]
    opened = {}
    for name, properties in (("shredded", ON), ("plain", {})):
        table = gl.delta.create(tmp_path / name, SCHEMA, properties=properties | {"gapless.rowGroupRows": 10})
        table.append(rows(values))
        for path, filter_ in (("a", {"v.a": 42}), ("b.c", {"v.b.c": {"$gte": "k095"}}), ("free", {"v.free": 42})):
            numbers.clear()
            found = table.query(filter_, columns=["id"])["id"].to_pylist()
            assert found == ([42] if path != "b.c" else [95, 96, 97, 98, 99])
            opened[name, path] = len(numbers)
    assert opened == {
        ("shredded", "a"): 1, ("shredded", "b.c"): 1, ("shredded", "free"): 10,
        ("plain", "a"): 10, ("plain", "b.c"): 10, ("plain", "free"): 10,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({f"{SHREDDING}v": "a long"}, "does nothing here"),
        (ON | {f"{SHREDDING}id": "a long"}, "no column of variants"),
        (ON | {f"{SHREDDING}w": "a long"}, "no column of variants"),
        *((ON | {f"{SHREDDING}v": text}, "cannot be") for text in ("", "a", "a text", "a long, a string", "a long, a.b long", "a..b long", "a decimal", "a decimal(40,2)", "a decimal(18,2)", "a long(3,1)", "a long;")),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be_are_refused(properties: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=message):
        gl.delta.create(tmp_path / "t", SCHEMA, properties=properties)
    table = gl.delta.create(tmp_path / "u", SCHEMA)
    with pytest.raises(InvalidOption, match=message):
        table.alter.set_properties(properties)


def test_a_column_with_declared_paths_is_neither_renamed_nor_dropped_before_they_are(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, properties={"delta.columnMapping.mode": "name"})
    table.append(rows([{"a": 1}]))
    table.alter.set_properties(ON)
    table.append(rows([{"a": 2}], first=1))
    assert held(table) == {0: {"a": 1}, 1: {"a": 2}}
    with pytest.raises(InvalidChange, match=f"{SHREDDING}v"):
        table.alter.rename_column("v", "w")
    with pytest.raises(InvalidChange, match=f"{SHREDDING}v"):
        table.alter.drop_column("v")
    table.alter.unset_properties([f"{SHREDDING}v"])
    table.alter.rename_column("v", "w")
    assert [decode_variant(**one) for one in table.scan().to_arrow().column("w").to_pylist()] == [{"a": 1}, {"a": 2}]


# -- in structs, lists and maps, as others write them --------------------------------------------------------------------

NESTED: list[Any] = [{"a": 1, "z": True}, {"a": "x"}, ..., "text", [1, {"a": 2}], {}, {"a": 3}]


def nested_table(place: Path) -> Any:
    shredded = shred_variant([None if one is ... else one for one in NESTED], {"a": pa.int64()})
    count = len(NESTED)
    holes = pa.array([at == 1 for at in range(count)])
    in_struct = pa.StructArray.from_arrays(
        [shredded, pa.array(range(count))], fields=[pa.field("w", shredded.type), pa.field("n", pa.int64())], mask=holes
    )
    in_list = pa.ListArray.from_arrays(pa.array([0, 2, 2, 5, 7], pa.int32()), shredded)
    in_list = pa.concat_arrays([in_list, pa.nulls(count - len(in_list), in_list.type)])
    in_map = pa.MapArray.from_arrays(pa.array([0, 0, 3, 7], pa.int32()), pa.array([f"k{at}" for at in range(count)]), in_struct)
    in_map = pa.concat_arrays([in_map, pa.nulls(count - len(in_map), in_map.type)])
    table = pa.table({"id": range(count), "st": in_struct, "l": in_list, "m": in_map})
    columns = [
        column("id", "long"),
        column("st", struct(column("w", "variant"), column("n", "long"))),
        column("l", {"type": "array", "elementType": "variant", "containsNull": True}),
        column(
            "m",
            {
                "type": "map",
                "keyType": "string",
                "valueType": struct(column("w", "variant"), column("n", "long")),
                "valueContainsNull": True,
            },
        ),
    ]
    file = Hand(path="a.parquet", rows=table, options={"row_group_size": 3})
    return lay(place, columns, [file], features=["variantType", "variantShredding"])


def plain(one: Any) -> Any:
    match one:
        case {"metadata": metadata, "value": value}:
            return decode_variant(metadata, value)
        case {"w": w, "n": n}:
            return {"w": ... if w is None else plain(w), "n": n}
        case list():
            return [... if inner is None else plain(inner) for inner in one]
        case (key, value):
            return (key, plain(value))
    return one


def test_variants_in_structs_lists_and_maps_are_put_together(tmp_path: Path) -> None:
    table = nested_table(tmp_path / "t")
    found = table.scan().to_arrow()
    told = [{"w": one, "n": at} if at != 1 else None for at, one in enumerate(NESTED)]
    assert [plain(one) for one in found.column("st").to_pylist()] == told
    lists: list[Any] = [NESTED[:2], [], NESTED[2:5], NESTED[5:], None, None, None]
    assert [plain(one) for one in found.column("l").to_pylist()] == lists
    maps = [[(f"k{at}", told[at]) for at in range(start, end)] for start, end in ((0, 0), (0, 3), (3, 7))]
    assert [None if one is None else [plain(pair) for pair in one] for one in found.column("m").to_pylist()] == [
        *maps,
        *[None] * 4,
    ]
    some = table.scan(where="id >= 4", columns=["l"]).to_arrow()
    assert some.column("l").to_pylist() == [None, None, None]


def test_nested_parts_that_do_not_fit_together_or_are_not_known_are_refused(tmp_path: Path) -> None:
    shredded = shred_variant([{"a": 1}], {"a": pa.int64()})
    columns = [column("st", struct(column("w", "variant")))]

    def laid(name: str, variant: pa.Array) -> Any:
        return lay(
            tmp_path / name,
            columns,
            [Hand(path="a.parquet", rows=pa.table({"st": pa.StructArray.from_arrays([variant], ["w"])}))],
            features=["variantType", "variantShredding"],
        )

    odd = [field if field.name != "metadata" else pa.field("metadata", pa.binary()) for field in shredded.type]
    without = pa.StructArray.from_arrays([pa.array([b"\x01\x00\x00"]), *shredded.flatten()[1:]], fields=odd)
    with pytest.raises(CorruptTable, match="do not fit together"):
        laid("damaged", without).scan().to_arrow()
    unknown = pa.StructArray.from_arrays(
        [pa.array([b"\x01\x00\x00"]), pa.array([None], pa.binary()), pa.array([5], pa.uint32())],
        ["metadata", "value", "typed_value"],
    )
    with pytest.raises(UnsupportedTable, match="uint32") as error:
        laid("unknown", unknown).scan().to_arrow()
    assert error.value.needs == "variantShredding"
