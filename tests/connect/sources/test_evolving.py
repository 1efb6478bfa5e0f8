"""Sources whose rows come with other columns: each row as it came, from every cursor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless import connect
from gapless.connect import AfterValue, Cursor
from gapless.errors import InvalidOption, SchemaMismatch
from support.http_service import Answer, Service

PAGES: list[list[dict[str, Any]]] = [
    [{"id": 1, "a": 1}, {"id": 2, "a": None}],
    [{"id": 3, "a": 2.5, "b": "x"}],  # a new column, and a type that holds more
    [{"id": 4, "a": 7}],  # fewer columns, and whole numbers again
    [{"id": 5, "a": "seven", "b": "y"}, {"id": 6, "a": "8", "b": None}],  # another type
    [{"id": 7, "b": {"c": 1}}],
]
ROWS = [row for page in PAGES for row in page]


def serve(service: Service) -> None:
    def answer(_path: str, query: dict[str, str]) -> Answer:
        since = int(query.get("since", "0"))
        page = next((page for page in PAGES if page[0]["id"] <= since + 1 <= page[-1]["id"]), [])
        return 200, {}, json.dumps([row for row in page if row["id"] > since]).encode()

    service.answer = answer


def put_files(root: Path, suffix: str) -> None:
    for number, page in enumerate(PAGES):
        place = root / f"{number}.{suffix}"
        if suffix == "parquet":
            pa.parquet.write_table(pa.Table.from_pylist(page), place)
        else:
            place.write_text("".join(json.dumps(row) + "\n" for row in page), encoding="utf-8")


@pytest.fixture(params=["http", "jsonl", "parquet"])
def opened(request: pytest.FixtureRequest, http_service: Service, tmp_path: Path) -> Any:
    """Opens the source."""
    if request.param == "http":
        serve(http_service)
        pages = AfterValue("since", "id")
        return lambda **options: connect.source(http_service.url, pagination=pages, **options)
    put_files(tmp_path, request.param)
    return lambda **options: connect.source(f"files:{tmp_path}/*.{request.param}", **options)


def polled(source: Any, limit: int | None) -> list[dict[str, Any]]:
    """All that polls give, each in the columns that the source said before it."""
    found: list[dict[str, Any]] = []
    while True:
        columns = source.schema
        told = source.poll(limit)
        for batch in told:
            assert batch.schema == columns
            found += batch.to_pylist()
        assert (source.schema != columns) == told.schema_changed
        if not told:
            return found


def same(row: dict[str, Any], came: dict[str, Any]) -> bool:
    """With null where it came without a column."""
    return {name: value for name, value in row.items() if value is not None} == {
        name: value for name, value in came.items() if value is not None
    }


@pytest.mark.parametrize("limit", [1, 2, None])
def test_each_row_comes_as_it_is_and_from_every_cursor(opened: Any, limit: int | None) -> None:
    with opened(on_schema_change="evolve") as source:
        assert source.capabilities.evolves
        rows = polled(source, limit)
        assert len(rows) == len(ROWS)
        assert all(map(same, rows, ROWS))
        assert source.schema.names == ["id", "a", "b"]
    with opened(on_schema_change="evolve") as source:
        given = 0
        while told := source.poll(limit):
            given += told.rows
            with opened(on_schema_change="evolve") as other:
                other.start(Cursor.from_json(source.cursor.to_json()))
                rest = polled(other, 1)
                assert len(rest) == len(ROWS) - given
                assert all(map(same, rest, ROWS[given:]))


def test_it_is_an_error_where_nobody_says_otherwise(opened: Any) -> None:
    with opened() as source:
        assert not source.capabilities.evolves
        assert source.poll(2).rows == 2
        with pytest.raises(SchemaMismatch, match="b: is not known"):
            source.poll()


@pytest.mark.parametrize("given", ["keep", None, True])
def test_other_words_are_refused(opened: Any, given: object) -> None:
    with pytest.raises(InvalidOption, match="on_schema_change"):
        opened(on_schema_change="evolve", schema=pa.schema([("id", pa.int64())]))
    if given is not None:
        with pytest.raises(InvalidOption, match="There are: 'error', 'evolve'"):
            opened(on_schema_change=given)
