"""Schemas as JSON: deltalake reads what we write, we read what it and Spark write, and nothing of a field is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pytest
from hypothesis import given

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.delta.schema.types import (
    PrimitiveType,
    StructField,
    StructType,
    decode_schema,
    encode_schema,
    kept_of_last_schemas,
)
from support.delta_strategies import schemas

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "delta"


@given(schemas)
def test_a_schema_comes_back(schema: StructType) -> None:
    assert decode_schema(encode_schema(schema), "x") == schema


@given(schemas)
def test_deltalake_reads_the_same(schema: StructType) -> None:
    text = encode_schema(schema)
    theirs = json.loads(deltalake.Schema.from_json(text).to_json())
    assert _plain(theirs) == _plain(json.loads(text))


def _plain(raw: Any) -> Any:
    # deltalake gives whole numbers of metadata as texts or floats in places; it keeps which keys there are.
    if isinstance(raw, dict):
        return {key: sorted(value) if key == "metadata" else _plain(value) for key, value in raw.items()}
    return [_plain(item) for item in raw] if isinstance(raw, list) else raw


def _schema_texts(root: Path) -> list[str]:
    found = set()
    for log in root.rglob("_delta_log/*.json"):
        for line in log.read_text().splitlines():
            action = json.loads(line)
            if "schemaString" in action.get("metaData", {}):
                found.add(action["metaData"]["schemaString"])
    return sorted(found)


def test_what_others_wrote_is_kept_word_for_word() -> None:
    schemas = _schema_texts(FIXTURES)
    assert len(schemas) > 15
    for text in schemas:
        assert json.loads(encode_schema(decode_schema(text, "x"))) == json.loads(text)


def test_the_golden_schemas(shared: Path) -> None:
    schemas = _schema_texts(shared / "golden" / "delta")
    assert len(schemas) > 40
    for text in schemas:
        again = encode_schema(decode_schema(text, "x"))
        assert decode_schema(again, "y") == decode_schema(text, "x")


def test_a_column_called_fields_or_type_is_a_column() -> None:
    inner = StructType(
        fields=(StructField(name="type", type=PrimitiveType("string")), StructField(name="fields", type=PrimitiveType("long")))
    )
    schema = StructType(fields=(StructField(name="type", type=inner, metadata={"type": "struct", "fields": []}),))
    assert decode_schema(encode_schema(schema), "x") == schema


def test_old_spellings() -> None:
    text = '{"type":"struct","fields":[{"name":"a","type":"decimal"},{"name":"b","type":"null","metadata":null},{"name":"c","type":"decimal(6, 2)"}]}'
    assert [field.type for field in decode_schema(text, "x")] == [
        PrimitiveType("decimal(10,0)"),
        PrimitiveType("void"),
        PrimitiveType("decimal(6,2)"),
    ]


@pytest.mark.parametrize(
    ("type_", "named"),
    [
        ('"interval year"', "interval year"),
        ('"geometry(4326)"', "geometry"),
        ('{"type":"udt","sqlType":"long"}', "udt"),
        ('{"type":"array","elementType":"timestamp_ns"}', "timestamp_ns"),
    ],
)
def test_an_unknown_type_is_named(type_: str, named: str) -> None:
    text = f'{{"type":"struct","fields":[{{"name":"odd","type":{type_},"nullable":true,"metadata":{{}}}}]}}'
    with pytest.raises(UnsupportedTable, match="column 'odd") as caught:
        decode_schema(text, "0.json")
    assert named in str(caught.value)
    assert named in caught.value.needs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '"long"',
        "[]",
        '{"type":"struct"}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{"name":"a"}]}',
        '{"type":"struct","fields":[{"name":1,"type":"long"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":[1]}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(39,0)"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(2,3)"}]}',
    ],
)
def test_a_damaged_schema_names_its_file(text: str) -> None:
    with pytest.raises(CorruptTable, match=r"_delta_log/0\.json is damaged") as caught:
        decode_schema(text, "_delta_log/0.json")
    assert caught.value.path == "_delta_log/0.json"


def test_what_is_made_of_a_schema_is_kept_for_it_alone() -> None:
    made: list[StructType] = []

    @kept_of_last_schemas
    def make(schema: StructType) -> int:
        made.append(schema)
        return len(made)

    schemas = [StructType(fields=(StructField(name="x", type=PrimitiveType("long")),)) for _ in range(20)]
    assert [make(schema) for schema in schemas] == list(range(1, 21)), "equal ones too are made anew"
    assert [make(schema) for schema in schemas[-3:]] == [18, 19, 20]
    assert make(schemas[0]) == 21, "only the last few are kept"
