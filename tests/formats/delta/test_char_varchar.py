"""The lengths of texts that Spark's Delta tables declare."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.errors import UnsupportedTable
from gapless.formats.delta.schema.char_varchar import CHAR_VARCHAR, TextLength, TextLengths, text_lengths
from gapless.formats.delta.schema.types import ArrayType, DeltaType, MapType, PrimitiveType, StructField, StructType

STRING, INTEGER = PrimitiveType("string"), PrimitiveType("integer")


def column(type_: DeltaType, text: str | None) -> StructField:
    return StructField(name="c", type=type_, metadata={} if text is None else {CHAR_VARCHAR: text})


def struct(**types: DeltaType) -> StructType:
    return StructType(fields=tuple(StructField(name=name, type=type_) for name, type_ in types.items()))


def flat(lengths: TextLengths, above: str = "") -> dict[str, str]:
    """Paths and what is declared there."""
    found = {} if lengths.own is None else {above: str(lengths.own)}
    for name, below in lengths.below.items():
        found |= flat(below, f"{above}.{name}")
    return found


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (STRING, "char(5)", {"": "char(5)"}),
        (STRING, "VARCHAR( 12 )", {"": "varchar(12)"}),
        (STRING, "character(2)", {"": "char(2)"}),
        (STRING, "string", {}),
        (STRING, None, {}),
        (INTEGER, "varchar(3)", {}),
        (ArrayType(element=STRING), "array<varchar(2)>", {".element": "varchar(2)"}),
        (ArrayType(element=ArrayType(element=STRING)), "array<array<char(1)>>", {".element.element": "char(1)"}),
        (MapType(key=STRING, value=STRING), "map<char(2),varchar(3)>", {".key": "char(2)", ".value": "varchar(3)"}),
        (MapType(key=STRING, value=INTEGER), "map<string, int>", {}),
        (
            struct(x=STRING, n=PrimitiveType("decimal(10,2)"), l=ArrayType(element=STRING)),
            "struct<x:char(2),n:decimal(10,2),l:array<varchar(4)>>",
            {".x": "char(2)", ".l.element": "varchar(4)"},
        ),
        (struct(X=STRING), "struct<x:char(2)>", {".X": "char(2)"}),
        (struct(i=INTEGER, b=STRING), "struct<i:interval day to second,b:varchar(1)>", {".b": "varchar(1)"}),
        (struct(i=INTEGER, b=STRING), "struct<i:string collate UNICODE_CI,b:varchar(1)>", {".b": "varchar(1)"}),
        (struct(**{"a:b`,<": STRING, "x y": STRING}), "struct<`a:b``,<`:char(2), x y:varchar(3)>", {".a:b`,<": "char(2)", ".x y": "varchar(3)"}),
        (struct(), "struct<>", {}),
        # Fields that were renamed, added or dropped since.
        (struct(new=STRING, b=STRING), "struct<a:char(2),b:char(3)>", {".new": "char(2)", ".b": "char(3)"}),
        (struct(a=STRING, b=STRING, more=STRING), "struct<a:char(2),b:char(3)>", {".a": "char(2)", ".b": "char(3)"}),
        (struct(b=STRING), "struct<a:char(2),b:char(3)>", {".b": "char(3)"}),
        (struct(c=STRING), "struct<a:char(2),b:char(3)>", {}),
        (ArrayType(element=STRING), "varchar(2)", {}),
    ],
)  # fmt: skip
def test_lengths_are_found_at_every_depth(type_: DeltaType, text: str | None, expected: dict[str, str]) -> None:
    found = text_lengths(column(type_, text))
    assert flat(found) == expected
    assert bool(found) is bool(expected)


def test_a_field_within_a_column_may_declare_its_own() -> None:
    inner = StructField(name="x", type=STRING, metadata={CHAR_VARCHAR: "varchar(7)"})
    outer = column(StructType(fields=(inner, StructField(name="y", type=STRING))), "struct<x:string,y:char(1)>")
    assert flat(text_lengths(outer)) == {".y": "char(1)", ".x": "varchar(7)"}
    assert text_lengths(inner).own == TextLength("varchar", 7)


@pytest.mark.parametrize(
    "text", ["char", "char(x)", "varchar(5", "array<char(1)", "array<char(1),char(2)>", "map<char(1)>", "struct<a>", "", "char(1)>", "<"]
)  # fmt: skip
def test_what_is_no_type_is_refused_and_named(text: str) -> None:
    with pytest.raises(UnsupportedTable, match="column 'c'") as caught:
        text_lengths(column(STRING, text))
    assert repr(text) in caught.value.what


def test_a_type_of_any_depth_is_no_way_to_crash() -> None:
    text: Any = "array<" * 5000 + "char(1)" + ">" * 5000
    with pytest.raises(UnsupportedTable):
        text_lengths(column(STRING, text))
