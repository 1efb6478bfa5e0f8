"""`char(n)` and `varchar(n)` of a table that delta-spark made, in turns with it: what one refuses the other does, and both read the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidValue
from interop.delta.engines import Ask, EngineError

LONG = {"c": "'sixsix'", "v": "'four'", "l": "array('k', 'abc')", "s": "named_struct('x', 'xyz')"}
"""A text that is too long, by the column, in Spark's SQL."""
LONG_HERE = {"c": "sixsix", "v": "four", "l": ["k", "abc"], "s": {"x": "xyz"}}


@pytest.mark.long
def test_turns_with_spark_on_texts_that_have_a_length(tmp_path: Path, engine: Ask) -> None:
    spark, path = engine("spark"), str(tmp_path / "t")
    spark.do(
        "sql",
        text=f"create table delta.`{path}` (id bigint, c char(5), v varchar(3), l array<char(2)>, s struct<x: varchar(2)>) using delta",
    )
    table = gl.delta.open(path)
    table.append([{"id": 1, "c": "ab", "v": "éü", "l": ["k", None], "s": {"x": "y"}}, {"id": 2}])
    spark.do("sql", text=f"insert into delta.`{path}` values (3, 'cd', 'x', array('l'), named_struct('x', 'z'))")
    table.refresh()
    for column, sql in LONG.items():
        with pytest.raises(EngineError, match=r"EXCEED_CHAR_VARCHAR_LIMIT|exceeds char/varchar"):
            spark.do("sql", text=f"insert into delta.`{path}` (id, {column}) values (9, {sql})")
        row = pa.Table.from_pylist([{"id": 9, column: LONG_HERE[column]}])
        merge = table.merge(row, "t.id = s.id", source_alias="s", target_alias="t").when_not_matched_insert(
            {"id": "s.id", column: f"s.{column}"}
        )
        writes: list[Callable[[], object]] = [lambda row=row: table.append(row), merge.execute]  # type: ignore[misc]
        for write in writes:
            with pytest.raises(InvalidValue) as caught:
                write()
            assert (caught.value.column, caught.value.row) == (column, 0)
    spark.do("sql", text=f"update delta.`{path}` set v = 'new' where id = 1")
    table.refresh()
    table.update({"c": "'e'"}, where="id = 2")
    told = spark.do("query", text=f"select id, c, v, l, s.x x from delta.`{path}` order by id").to_pylist()
    expected = [
        {"id": 1, "c": "ab   ", "v": "new", "l": ["k ", None], "x": "y"},
        {"id": 2, "c": "e    ", "v": None, "l": None, "x": None},
        {"id": 3, "c": "cd   ", "v": "x", "l": ["l "], "x": "z"},
    ]
    assert told == expected
    ours = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], (row["c"] or "").rstrip(), row["v"]) for row in ours] == [
        (1, "ab", "new"),
        (2, "e", None),
        (3, "cd", "x"),
    ]
    assert [row["c"] for row in ours[:2]] == ["ab   ", "e    "]
