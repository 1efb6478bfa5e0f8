"""`gapless alter`: each action, its texts, and what is typed wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from cli.conftest import Gapless
from gapless.cli.show.values import parse_type_text
from gapless.errors import InvalidOption

T0 = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of one row: ts, n (int32), s {x}, and 2024-01-01 of it."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(pa.table({"ts": pa.array([T0], pa.timestamp("us", "UTC")), "n": pa.array([1], pa.int32()), "s": [{"x": 1}]}))
    return tmp_path / "t"


def row(root: Path) -> dict[str, Any]:
    (found,) = gl.open(root).scan().to_arrow().to_pylist()
    return dict(found)


def test_columns_change_one_command_after_another(inside: Gapless, root: Path) -> None:
    for words in (
        ("add", "venue", "string", "--default", "XNAS", "--after", "ts", "--comment", "where"),
        ("widen", "n", "int64"),
        ("rename", "n", "number"),
        ("rename", "s.x", "y"),
        ("add", "s.z", "double", "--default", "0.5"),
        ("reorder", "number", "ts"),
        ("reorder", "z", "--within", "s"),
        ("comment", "number", "how many"),
    ):
        ended = inside("alter", root, *words)
        assert (ended.code, ended.err) == (0, ""), words
        assert ended.out.startswith("Version ")
    assert list(row(root).items()) == [("number", 1), ("ts", T0), ("venue", "XNAS"), ("s", {"z": 0.5, "y": 1})]
    schema = gl.open(root).schema
    assert schema is not None
    assert [schema.field(name).metadata for name in ("venue", "number")] == [{b"comment": b"where"}, {b"comment": b"how many"}]
    assert inside("alter", root, "comment", "number").code == 0
    assert inside("alter", root, "drop", "number").code == 0
    assert list(row(root)) == ["ts", "venue", "s"]


def test_json_says_the_version_and_whether_anything_changed(inside: Gapless, root: Path) -> None:
    first, second = (json.loads(inside("alter", root, "widen", "n", "int64", "--json").out) for _ in range(2))
    assert [(one["version"], one["changed"]) for one in (first, second)] == [(3, True), (3, False)]
    assert inside("alter", root, "widen", "n", "int64").out == "Nothing to change, still version 3.\n"


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("int8", "-5", -5), ("double", "0.1", 0.1), ("string", "00123", "00123"), ("bool", "true", True),
        ("date32", "2024-02-29", datetime(2024, 2, 29).date()), ("decimal128(9, 2)", "1.50", "1.50"),
        ("timestamp[us, tz=UTC]", "2024-01-01T00:00:00Z", T0), ("timestamp[ms]", "2024-01-01 00:00", datetime(2024, 1, 1)),
    ],
)  # fmt: skip
def test_defaults_are_read_by_their_type(inside: Gapless, root: Path, type_: str, text: str, value: object) -> None:
    assert inside("alter", root, "add", "v", type_, "--default", text).code == 0
    found = row(root)["v"]
    assert (str(found) if type_.startswith("decimal") else found) == value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("dro", "n"), "Did you mean 'drop'?"),
        (("drop",), "drop takes NAME, and 0 words were given"),
        (("rename", "n"), "rename takes NAME NEW, and 1 word was given"),
        (("rename", "n", "a", "b"), "rename takes NAME NEW, and 3 words"),
        (("drop", "n", "--default", "3"), "--default means nothing for drop"),
        (("add", "v", "lis<int>"), "'lis<int>' is no Arrow type"),
        (("add", "v", "int8", "--default", "300"), "--default '300' is no value of int8"),
        (("add", "v", "list<int8>", "--default", "1"), "'1' is no default of column 'v'"),
        (("add", "v", "list<int8>", "--default", "1"), "A default is a single value"),
        (("drop", "ts"), "cannot be dropped: it is the index or an entity column"),
        (("drop", "nn"), "Did you mean 'n'?"),
        (("widen", "n", "int8"), "It may become int64 or double"),
    ],
)
def test_what_was_typed_is_wrong(inside: Gapless, root: Path, words: tuple[str, ...], said: str) -> None:
    ended = inside("alter", root, *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in " ".join(ended.err.split())
    assert gl.open(root).version == 2


TYPES = [
    pa.int64(), pa.float16(), pa.float32(), pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.date64(), pa.time32("ms"),
    pa.time64("ns"), pa.duration("us"), pa.timestamp("s"), pa.timestamp("ns", "Asia/Kolkata"), pa.timestamp("us", "+05:30"),
    pa.decimal32(5, 2), pa.decimal128(38, 0), pa.decimal256(50, 2), pa.binary(3), pa.list_(pa.int8()), pa.large_list(pa.string()),
    pa.list_(pa.timestamp("us", "UTC"), 2), pa.map_(pa.string(), pa.decimal128(5, 2)),
    pa.struct([("a", pa.int8()), ("b c", pa.list_(pa.struct([pa.field("d", pa.map_(pa.int8(), pa.bool_()), nullable=False)])))]),
]  # fmt: skip


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_type_is_read_as_it_is_printed(type_: pa.DataType) -> None:
    assert parse_type_text(str(type_)) == type_


def test_types_have_short_forms() -> None:
    assert parse_type_text("list<int8>") == pa.list_(pa.int8())
    assert parse_type_text("list<struct<a: decimal(5,2)>>") == pa.list_(pa.struct([("a", pa.decimal128(5, 2))]))
    assert parse_type_text(" map<string, list<int8>> ") == pa.map_(pa.string(), pa.list_(pa.int8()))


@pytest.mark.parametrize(
    "text", ["", "int", "list<>", "list<int8, int8>", "struct<int8>", "map<string>", "decimal(5)", "timestamp[x]"]
)
def test_other_texts_are_no_types(text: str) -> None:
    with pytest.raises(InvalidOption):
        parse_type_text(text)
