"""Identities of columns in `logical_schema`: there and back, and nothing else is taken for them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import CorruptTable
from gapless.formats.timeseries.actions import TableMeta
from gapless.formats.timeseries.codec.metadata import decode_meta, encode_meta, with_features
from gapless.formats.timeseries.codec.schema import decode_columns, encode_schema
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.index import IndexSpec, parse_bucket

TS = pa.field("ts", pa.timestamp("us", "UTC"), nullable=False)
DEEP = pa.struct([("x", pa.int8()), ("l", pa.list_(pa.struct([("y", pa.decimal128(9, 2))])))])
SCHEMA = pa.schema([TS, ("s", DEEP), ("m", pa.map_(pa.string(), DEEP)), ("f", pa.float64()), ("p", pa.null())])
IDS = ColumnIds(
    stored={("s",): "old", ("s", "l", "element", "y"): "y~2", ("m", "value", "x"): "was", ("p",): "p~3"},
    former={("s",): ("old", "older"), ("m", "value", "x"): ("was",)},
    defaults={("s", "x"): -3, ("m", "value", "l", "element", "y"): Decimal("1.50"), ("f",): -math.inf},
    retired={(): frozenset({"gone", "p"}), ("s", "l", "element"): frozenset({"y"}), ("s",): frozenset({"q"})},
)


def there_and_back(schema: pa.Schema, ids: ColumnIds) -> tuple[pa.Schema, ColumnIds]:
    return decode_columns(json.loads(json.dumps(encode_schema(schema, ids=ids), allow_nan=False)))


def test_identities_come_back_at_every_depth() -> None:
    schema, ids = there_and_back(SCHEMA, IDS)
    assert schema.equals(SCHEMA, check_metadata=True)
    assert ids == IDS


def test_a_schema_without_identities_says_nothing_of_them() -> None:
    assert there_and_back(SCHEMA, PLAIN) == (SCHEMA, PLAIN)
    assert not [key for key in json.dumps(encode_schema(SCHEMA)).split('"') if key.startswith(("gapless_s", "gapless_r"))]


def test_they_stand_beside_what_they_are_of() -> None:
    body = encode_schema(SCHEMA, ids=IDS)
    assert body["gapless_retired"] == ["gone", "p"]
    column = body["columns"][1]
    assert (column["gapless_stored"], column["gapless_former"], column["gapless_retired"]) == ("old", ["old", "older"], ["q"])
    assert column["data_type"]["Struct"]["fields"][0]["gapless_default"] == -3
    assert body["pending"] == [{"position": 4, "name": "p", "gapless_stored": "p~3"}]


def altered(change: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(encode_schema(SCHEMA, ids=IDS)))
    change(body, body["columns"])
    return body


BROKEN: dict[str, Any] = {
    "a stored name twice": lambda _, columns: columns[3].update(gapless_stored="old"),
    "a stored name that is another's own": lambda _, columns: columns[3].update(gapless_stored="m"),
    "a nested stored name twice": lambda _, columns: columns[1]["data_type"]["Struct"]["fields"][0].update(gapless_stored="l"),
    "a stored name that is none": lambda _, columns: columns[3].update(gapless_stored=""),
    "a stored name that is a number": lambda _, columns: columns[3].update(gapless_stored=3),
    "former names that are a number": lambda _, columns: columns[3].update(gapless_former=3),
    "a default of another type": lambda _, columns: columns[3].update(gapless_default="x"),
    "a default of no type": lambda _, columns: columns[3].update(gapless_default={"what": 1}),
    "a default of a struct": lambda _, columns: columns[1].update(gapless_default=1),
    "a default out of range": lambda _, columns: columns[1]["data_type"]["Struct"]["fields"][0].update(gapless_default=300),
    "retired names that are none": lambda body, _: body.update(gapless_retired=[1]),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_what_are_no_identities_is_corrupt_and_names_the_commit(change: Any) -> None:
    with pytest.raises(CorruptTable) as caught:
        decode_columns(altered(change), "_timeseries_log/0000000002.json")
    assert caught.value.path == "_timeseries_log/0000000002.json"


# -- features ----------------------------------------------------------------------------------------------------------

BEFORE = pa.schema([TS, ("a", pa.int32()), ("b", pa.string())])
INDEX = IndexSpec(column="ts", type="timestamp", bucket=parse_bucket("1h", "timestamp"))


def featured(schema: pa.Schema, ids: ColumnIds = PLAIN, before: pa.Schema = BEFORE) -> TableMeta:
    """The metadata that a table of `before` has once its columns are these, as the log gives them back."""
    first = decode_meta(encode_meta(with_features(TableMeta(index=INDEX, schema=before, created_ns=0))))
    return decode_meta(encode_meta(with_features(replace(first, schema=schema, ids=ids))))


GROWN = {
    "at its end": pa.schema([*BEFORE, ("c", pa.int8())]),
    "in its middle": pa.schema([TS, ("c", pa.int8()), *list(BEFORE)[1:]]),
    "with unknown types": pa.schema([*BEFORE, ("c", pa.null()), ("d", pa.int8())]),
}


@pytest.mark.parametrize("schema", GROWN.values(), ids=GROWN)
def test_a_schema_that_grew_needs_what_protocol_7_calls_it(schema: pa.Schema) -> None:
    meta = featured(schema)
    assert meta.reader_features == {"schema_add_columns"}
    assert meta.schema == schema
    again = featured(pa.schema([("z", pa.int64()), *schema]), before=schema)
    assert again.reader_features == {"schema_add_columns"}
    assert again.schema == pa.schema([("z", pa.int64()), *schema])


def test_columns_put_between_late_ones_stand_where_they_belong() -> None:
    meta = with_features(TableMeta(index=INDEX, schema=BEFORE, created_ns=0))
    fields = list(BEFORE)
    for at, name in ((3, "c"), (1, "d"), (4, "e"), (2, "f"), (6, "g")):
        fields.insert(at, pa.field(name, pa.int8()))
        meta = decode_meta(encode_meta(with_features(replace(meta, schema=pa.schema(fields)))))
        assert meta.schema == pa.schema(fields)
    assert meta.reader_features == {"schema_add_columns"}


OTHER: dict[str, tuple[pa.Schema, ColumnIds]] = {
    "another order": (pa.schema([TS, BEFORE.field("b"), BEFORE.field("a")]), PLAIN),
    "a column less": (BEFORE.remove(1), ColumnIds(retired={(): frozenset({"a"})})),
    "a type": (BEFORE.set(1, pa.field("a", pa.int64())), PLAIN),
    "a nullability": (BEFORE.set(1, pa.field("a", pa.int32(), nullable=False)), PLAIN),
    "a default": (pa.schema([*BEFORE, ("c", pa.int8())]), ColumnIds(defaults={("c",): 1})),
    "another name": (BEFORE.set(1, pa.field("c", pa.int32())), ColumnIds(stored={("c",): "a"})),
    "a name again": (pa.schema([*BEFORE, ("c", pa.int8())]), ColumnIds(stored={("c",): "c~2"}, retired={(): frozenset({"c"})})),
}


@pytest.mark.parametrize(("schema", "ids"), OTHER.values(), ids=OTHER)
def test_whatever_else_changed_needs_our_feature_for_good(schema: pa.Schema, ids: ColumnIds) -> None:
    meta = featured(schema, ids)
    assert meta.reader_features == {"gapless_columns"}
    assert (meta.schema, meta.ids) == (schema, ids)
    assert with_features(replace(meta, schema=BEFORE, ids=PLAIN)).reader_features == {"gapless_columns"}


def test_comments_are_said_anew_beside_what_was_written() -> None:
    nested = pa.struct(
        [
            pa.field("x", pa.int8(), metadata={"comment": "c"}),
            pa.field("y", pa.list_(pa.field("item", pa.int8(), metadata={"k": "v"}))),
        ]
    )
    before = pa.schema(
        [TS, ("s", pa.struct([("x", pa.int8()), ("y", pa.list_(pa.int8()))])), ("m", pa.map_(pa.string(), pa.int8()))]
    )
    schema = pa.schema(
        [TS.with_metadata({"comment": "t"}), ("s", nested), before.field("m").with_metadata({b"\xff": b"1"})],
        metadata={"o": "w"},
    )
    meta = featured(schema, before=before)
    assert meta.schema is not None
    assert meta.schema.equals(schema, check_metadata=True)
    assert meta.reader_features == frozenset()
    gone = featured(before, before=schema)
    assert gone.schema is not None
    assert gone.schema.equals(before, check_metadata=True)
