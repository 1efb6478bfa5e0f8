"""Physical names and ids, and the changes of a schema."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from gapless.errors import InvalidChange, SchemaMismatch, UnknownColumn
from gapless.formats.delta.schema.arrow_types import VOID, from_arrow
from gapless.formats.delta.schema.changes import may_widen, type_at, wider_than
from gapless.formats.delta.schema.column_mapping import (
    ID,
    NAME,
    add,
    assign,
    change_field,
    check_names,
    drop,
    find_field,
    max_field_id,
    rename,
    widen,
)
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType, StructField, StructType, encode_schema
from support.delta_strategies import schemas

LONG = PrimitiveType("long")
SCHEMA = from_arrow(
    pa.schema(
        [
            ("a", pa.int32()),
            ("s", pa.struct([("x", pa.int8()), ("y", pa.string())])),
            ("l", pa.list_(pa.struct([("z", pa.int16())]))),
            ("m", pa.map_(pa.int32(), pa.list_(pa.float32()))),
        ]
    )
)
MAPPED, LAST = assign(SCHEMA, "name", 0)


def _ids(schema: StructType) -> list[int]:
    text = encode_schema(schema)
    return [int(part.split(",")[0].split("}")[0]) for part in text.split(f'"{ID}":')[1:]]


@given(schemas)
def test_every_field_gets_an_id_and_a_name(schema: StructType) -> None:
    names = iter(f"col-{number}" for number in range(99))
    mapped, last = assign(schema, "id", 7, lambda: next(names))
    text = encode_schema(mapped)
    ids = _ids(mapped)
    assert sorted(ids) == list(range(8, last + 1))
    assert text.count(f'"{NAME}"') == len(ids)
    assert max_field_id(mapped) == last
    assert assign(mapped, "id", last, lambda: "never") == (mapped, last)
    assert assign(schema, "none", 7) == (schema, 7)


def test_a_table_with_files_keeps_its_names() -> None:
    assert LAST == 7
    assert find_field(MAPPED, ("s", "x")).metadata == {ID: 3, NAME: "x"}
    assert find_field(MAPPED, ("l", "element", "z")).physical_name == "z"


def test_new_columns_go_on_from_the_highest_id() -> None:
    grown = add(MAPPED, ("s",), StructField(name="new", type=LONG))
    mapped, last = assign(grown, "name", LAST, lambda: "col-new")
    assert last == 8
    assert find_field(mapped, ("s", "new")).metadata == {ID: 8, NAME: "col-new"}
    assert assign(grown, "name", 20, lambda: "col-new")[1] == 21
    assert assign(grown, "name", 0, lambda: "col-new")[1] == 8, "never an id that is taken"


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{b", "a(b", "a\nb", "a\tb", "a=b"])
def test_type_19_delta_odd_names_want_column_mapping(name: str) -> None:
    for fields in (
        [(name, pa.int64())],
        [("s", pa.struct([(name, pa.int64())]))],
        [("l", pa.list_(pa.struct([(name, pa.int64())])))],
    ):
        schema = from_arrow(pa.schema(fields))
        check_names(schema, mapped=True)
        with pytest.raises(SchemaMismatch, match="has one of the characters") as caught:
            check_names(schema, mapped=False)
        assert "delta.columnMapping.mode" in caught.value.fix
        assert len(caught.value.differences) == 1


@pytest.mark.parametrize("name", ["TEST:A1.RAW-1", "$data", "my/col", "#event", "päivä", "x`y", 'a"b', "1st"])
def test_type_19_delta_other_names_are_fine(name: str) -> None:
    check_names(from_arrow(pa.schema([(name, pa.int64())])), mapped=False)


def test_type_19_delta_twins_and_empty_names() -> None:
    fields = tuple(StructField(name=name, type=LONG) for name in ("a", "A", "", "a"))
    with pytest.raises(SchemaMismatch) as caught:
        check_names(StructType(fields=(StructField(name="s", type=StructType(fields=fields)),)), mapped=True)
    assert caught.value.differences == ("'s.A' differs from 'a' by case alone", "'s.' is no name", "'s.a' is there twice")


def test_finding() -> None:
    assert find_field(SCHEMA, ("l", "element", "z")).type == PrimitiveType("short")
    assert type_at(SCHEMA, ("m", "value", "element")) == PrimitiveType("float")
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("b",), "a"),
        (("s", "z"), "x"),
        (("l", "z"), "element"),
        (("m", "item"), "value"),
        (("a", "b"), ""),
    ]
    for path, known in wrong:
        with pytest.raises(UnknownColumn) as caught:
            type_at(SCHEMA, path)
        assert known in " ".join(caught.value.columns)
        assert caught.value.column == ".".join(path)
    nameless: list[tuple[str, ...]] = [(), ("l", "element"), ("m", "key")]
    for path in nameless:
        with pytest.raises(InvalidChange, match="no name of its own"):
            find_field(SCHEMA, path)


def test_changing_a_field() -> None:
    changed = change_field(SCHEMA, ("l", "element", "z"), lambda field: field.with_metadata(comment="deep"))
    assert find_field(changed, ("l", "element", "z")).metadata == {"comment": "deep"}
    assert changed.names == SCHEMA.names
    assert change_field(changed, ("l", "element", "z"), lambda field: field.with_metadata(comment=None)) == SCHEMA


def test_adding() -> None:
    new = StructField(name="new", type=LONG)
    assert add(SCHEMA, (), new).names == ("a", "s", "l", "m", "new")
    assert add(SCHEMA, (), new, after="a").names == ("a", "new", "s", "l", "m")
    assert type_at(add(SCHEMA, ("l", "element"), new), ("l", "element", "new")) == LONG
    with pytest.raises(InvalidChange, match="there is 'a'"):
        add(SCHEMA, (), StructField(name="A", type=LONG))
    with pytest.raises(InvalidChange):
        add(SCHEMA, ("a",), new)
    with pytest.raises(InvalidChange):
        add(SCHEMA, (), StructField(name="", type=LONG))
    with pytest.raises(UnknownColumn):
        add(SCHEMA, (), new, after="b")


def test_renaming_and_dropping() -> None:
    renamed = rename(MAPPED, ("s", "x"), "a b")
    assert find_field(renamed, ("s", "a b")).physical_name == "x"
    assert rename(MAPPED, ("a",), "A").names[0] == "A"
    assert rename(MAPPED, ("l", "element", "z"), "zz") != MAPPED
    with pytest.raises(InvalidChange, match="there is 'y'"):
        rename(MAPPED, ("s", "x"), "Y")
    assert drop(MAPPED, ("s", "x")) != MAPPED
    assert drop(MAPPED, ("a",)).names == ("s", "l", "m")
    with pytest.raises(InvalidChange, match="the only one"):
        drop(MAPPED, ("l", "element", "z"))
    with pytest.raises(InvalidChange, match="renamed without column mapping") as caught:
        rename(SCHEMA, ("a",), "b")
    assert "delta.columnMapping.mode" in caught.value.fix
    with pytest.raises(InvalidChange, match="dropped without column mapping"):
        drop(SCHEMA, ("a",))


WIDER = {
    "byte": {"short", "integer", "long", "double", "decimal(10,0)", "decimal(12,2)", "decimal(38,28)"},
    "short": {"integer", "long", "double", "decimal(10,0)"},
    "integer": {"long", "double", "decimal(10,0)", "decimal(11,1)"},
    "long": {"decimal(20,0)", "decimal(22,2)"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
    "decimal(10,2)": {"decimal(11,2)", "decimal(12,4)", "decimal(12,3)"},
}
ALL = sorted(
    set().union(*WIDER.values(), WIDER)
    | {
        "string",
        "binary",
        "boolean",
        "timestamp",
        "decimal(10,1)",
        "decimal(12,5)",
        "decimal(9,0)",
        "decimal(19,0)",
        "decimal(10,3)",
    }
)


@pytest.mark.parametrize("before", ALL)
def test_what_may_be_widened(before: str) -> None:
    """Written out from the protocol's list; of the decimals, those that are wide enough for all digits on both sides."""
    expected = set(WIDER.get(before, ()))
    for name in ALL:
        if name.startswith("decimal") and before in ("byte", "short", "integer", "long"):
            precision, scale = (int(part) for part in name[8:-1].split(","))
            digits = 20 if before == "long" else 10
            if precision - digits >= scale:
                expected.add(name)
        if name.startswith("decimal") and before.startswith("decimal"):
            (p0, s0), (p1, s1) = ((int(part) for part in text[8:-1].split(",")) for text in (before, name))
            if name != before and p1 - p0 >= s1 - s0 >= 0:
                expected.add(name)
    assert {name for name in ALL if may_widen(PrimitiveType(before), PrimitiveType(name))} == expected


@pytest.mark.parametrize(
    ("path", "type_", "holder", "record"),
    [
        (("a",), "long", ("a",), {"fromType": "integer", "toType": "long"}),
        (("s", "x"), "short", ("s", "x"), {"fromType": "byte", "toType": "short"}),
        (("l", "element", "z"), "long", ("l", "element", "z"), {"fromType": "short", "toType": "long"}),
        (("m", "key"), "long", ("m",), {"fromType": "integer", "toType": "long", "fieldPath": "key"}),
        (("m", "value", "element"), "double", ("m",), {"fromType": "float", "toType": "double", "fieldPath": "value.element"}),
    ],
)
def test_widening_is_recorded(path: tuple[str, ...], type_: str, holder: tuple[str, ...], record: dict[str, str]) -> None:
    found = widen(SCHEMA, path, PrimitiveType(type_))
    assert type_at(found, path) == PrimitiveType(type_)
    assert find_field(found, holder).metadata == {"delta.typeChanges": [record]}
    assert found.names == SCHEMA.names


def test_a_second_widening_is_added_to_the_record() -> None:
    twice = widen(widen(SCHEMA, ("s", "x"), PrimitiveType("short")), ("s", "x"), LONG)
    assert [change["toType"] for change in find_field(twice, ("s", "x")).metadata["delta.typeChanges"]] == ["short", "long"]


def test_what_cannot_be_widened_says_what_can() -> None:
    with pytest.raises(InvalidChange, match="integer cannot become string") as caught:
        widen(SCHEMA, ("a",), PrimitiveType("string"))
    assert "long, double" in caught.value.fix
    with pytest.raises(InvalidChange, match="No type is wider"):
        widen(SCHEMA, ("s", "y"), LONG)
    with pytest.raises(InvalidChange):
        widen(SCHEMA, ("a",), SCHEMA.fields[1].type)
    with pytest.raises(InvalidChange):
        widen(SCHEMA, ("s",), LONG)
    with pytest.raises(UnknownColumn):
        widen(SCHEMA, ("b",), LONG)
    assert "before" in wider_than(PrimitiveType("decimal(10,2)"))[-1]


def test_type_07_delta_a_void_column_becomes_anything() -> None:
    schema = StructType(fields=(StructField(name="v", type=VOID),))
    types: list[DeltaType] = [LONG, PrimitiveType("string"), SCHEMA]
    for type_ in types:
        found = widen(schema, ("v",), type_)
        assert found.fields[0] == StructField(name="v", type=type_)
