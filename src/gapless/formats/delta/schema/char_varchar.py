"""`char(n)` and `varchar(n)` of Spark's SQL, which a Delta schema holds as `string` with the declared type in the column's metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from gapless.errors import UnsupportedTable
from gapless.formats.delta.schema.types import ArrayType, DeltaType, MapType, PrimitiveType, StructField, StructType

CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's key in a column's metadata: its whole type in Spark's SQL, such as `array<varchar(10)>`."""
_STRING = PrimitiveType("string")


@dataclass(frozen=True, slots=True)
class TextLength:
    """What a column of texts holds: up to `length` characters (Unicode code points), and a `char` exactly as many."""

    kind: Literal["char", "varchar"]
    length: int

    def __str__(self) -> str:
        """As Spark's SQL writes it: `char(5)`."""
        return f"{self.kind}({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLengths:
    """The lengths of one column's texts at every depth; false where none is declared."""

    own: TextLength | None = None
    """Of the value itself, where it is a text."""
    below: Mapping[str, TextLengths] = field(default_factory=dict)
    """Of what is in the value: by the names of a struct's fields, `element` of a list, `key` and `value` of a map."""

    def __bool__(self) -> bool:
        """Whether a length is declared at some depth."""
        return self.own is not None or bool(self.below)


NO_LENGTHS = TextLengths()


def text_lengths(column: StructField) -> TextLengths:
    """The lengths that a column, or a field within it, declares in its metadata. Raises UnsupportedTable for a text that is no type."""
    text = column.metadata.get(CHAR_VARCHAR)
    declared = NO_LENGTHS if text is None else _matched(_parsed(column.name, str(text)), column.type)
    return _united(declared, _nested(column.type))


def char_lengths(schema: StructType) -> dict[str, int]:
    """The length of each column that is a `char(n)` itself. Raises UnsupportedTable."""
    found = {one.name: text_lengths(one).own for one in schema.fields if CHAR_VARCHAR in one.metadata}
    return {name: size.length for name, size in found.items() if size is not None and size.kind == "char"}


def _nested(type_: DeltaType) -> TextLengths:
    """What fields of structs within a type declare of themselves."""
    found: dict[str, TextLengths]
    match type_:
        case StructType():
            found = {one.name: text_lengths(one) for one in type_}
        case ArrayType():
            found = {"element": _nested(type_.element)}
        case MapType():
            found = {"key": _nested(type_.key), "value": _nested(type_.value)}
        case PrimitiveType():
            found = {}
    return TextLengths(below={name: lengths for name, lengths in found.items() if lengths})


def _united(one: TextLengths, other: TextLengths) -> TextLengths:
    """Both; where both speak of one text, the second, which is nearer to it."""
    if not other or not one:
        return other or one
    below = {
        name: _united(one.below.get(name, NO_LENGTHS), other.below.get(name, NO_LENGTHS))
        for name in (*one.below, *(name for name in other.below if name not in one.below))
    }
    return TextLengths(own=other.own or one.own, below=below)


# -- the type in the metadata ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A type in Spark's SQL, as far as it matters here."""

    kind: str
    """`array`, `map`, `struct`, `char`, `varchar`; any other name is of no matter."""
    length: int = 0
    parts: tuple[tuple[str, _Declared], ...] = ()


def _matched(declared: _Declared, type_: DeltaType) -> TextLengths:
    """The lengths of a declared type as far as the column still is of that type."""
    match type_:
        case PrimitiveType():
            if type_ != _STRING or declared.kind not in ("char", "varchar"):
                return NO_LENGTHS
            return TextLengths(own=TextLength("char" if declared.kind == "char" else "varchar", declared.length))
        case StructType():
            pairs = _same_fields(declared, type_) if declared.kind == "struct" else {}
        case ArrayType():
            pairs = {"element": (declared.parts[0][1], type_.element)} if declared.kind == "array" else {}
        case MapType():
            (_, key), (_, value) = declared.parts if declared.kind == "map" else (("", _NOTHING), ("", _NOTHING))
            pairs = {"key": (key, type_.key), "value": (value, type_.value)}
    found = {name: _matched(*pair) for name, pair in pairs.items()}
    return TextLengths(below={name: lengths for name, lengths in found.items() if lengths})


def _same_fields(declared: _Declared, type_: StructType) -> dict[str, tuple[_Declared, DeltaType]]:
    """Which declared field each field of a struct is: by name, and by place where it was renamed since and none was dropped."""
    by_name = {name.lower(): part for name, part in declared.parts}
    present = {name.lower() for name in type_.names}
    found = {one.name: (by_name[one.name.lower()], one.type) for one in type_ if one.name.lower() in by_name}
    if len(declared.parts) <= len(type_.fields):
        for one, (name, part) in zip(type_, declared.parts, strict=False):
            if one.name not in found and name.lower() not in present:
                found[one.name] = part, one.type
    return found


_NOTHING = _Declared(kind="")
_WORD = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)\s*")
_LENGTH = re.compile(r"\(\s*(\d{1,10})\s*\)\s*")
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^:<>]*?))\s*:", re.DOTALL)
_REST = re.compile(r"(?:\([^()]*\)|[^,<>()])*")
"""What may follow the name of a type that is of no matter: numbers, a collation, the fields of an interval."""


@lru_cache(256)
def _parsed(column: str, text: str) -> _Declared:
    try:
        return _whole_type(text)
    except (_NoType, RecursionError):
        raise UnsupportedTable(
            f"the declared type {text!r} of column {column!r} cannot be read",
            why=f"Its metadata {CHAR_VARCHAR} is to hold a type of Spark's SQL, such as varchar(10)",
            fix="Mend it with the tool that set it, or write with Spark",
            needs=CHAR_VARCHAR,
        ) from None


class _NoType(Exception):
    """A text that is no type."""


def _whole_type(text: str) -> _Declared:
    found, end = _type_at(text, 0)
    if text[end:].strip():
        raise _NoType
    return found


def _type_at(text: str, at: int) -> tuple[_Declared, int]:
    """The type that begins at a place in a text, and the place just past it."""
    word = _WORD.match(text, at)
    if word is None:
        raise _NoType
    kind, at = word[1].lower(), word.end()
    if kind in ("char", "character", "varchar"):
        length = _LENGTH.match(text, at)
        if length is None:
            raise _NoType
        return _Declared(kind="varchar" if kind == "varchar" else "char", length=int(length[1])), length.end()
    if kind in ("array", "map", "struct") and text[at : at + 1] == "<":
        return _nested_at(text, at, kind)
    rest = _REST.match(text, at)
    return _Declared(kind="other"), at if rest is None else rest.end()


def _nested_at(text: str, at: int, kind: str) -> tuple[_Declared, int]:
    """A list, map or struct whose `<` is at a place in a text."""
    parts: list[tuple[str, _Declared]] = []
    if kind == "struct" and text[at + 1 :].lstrip().startswith(">"):
        return _Declared(kind=kind), text.index(">", at) + 1
    while text[at : at + 1] == ("," if parts else "<"):
        name = ""
        at += 1
        if kind == "struct":
            found = _NAME.match(text, at)
            if found is None:
                raise _NoType
            name, at = (found[2] if found[1] is None else found[1].replace("``", "`")), found.end()
        part, at = _type_at(text, at)
        parts.append((name, part))
    if text[at : at + 1] != ">" or (kind != "struct" and len(parts) != {"array": 1, "map": 2}[kind]):
        raise _NoType
    after = re.compile(r"\s*").match(text, at + 1)
    return _Declared(kind=kind, parts=tuple(parts)), at + 1 if after is None else after.end()
