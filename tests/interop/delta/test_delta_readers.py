"""After each kind of write of ours, others read the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gapless as gl
from interop.delta.engines import READERS, Ask, EngineError, counted
from interop.delta.scenes import SCENES

_NO_VECTORS = "it shows deleted rows: it does not know deletion vectors"
_NO_MAPPING = "it does not know column mapping"
CANNOT = {
    ("deltalake-0.25.5", "vectors"): _NO_VECTORS,
    ("deltalake-0.25.5", "vectors_in_partitions"): _NO_VECTORS,
    ("deltalake-0.25.5", "mapped_columns"): _NO_MAPPING,
    ("deltalake-0.25.5", "mapped_by_id"): _NO_MAPPING,
    ("deltalake-1.6.6", "widened"): "it refuses type widening",
    ("deltalake-1.6.3", "widened"): "it refuses type widening",
    ("polars", "widened"): "it refuses type widening",
    ("polars", "checkpointed_v2"): "it refuses V2 checkpoints",
    ("polars", "mapped_columns"): "it refuses column mapping",
    ("polars", "mapped_by_id"): "it refuses column mapping",
    (
        "polars",
        "vectors_in_partitions",
    ): "it does not find the vector of a file whose path has an encoded character, and shows deleted rows",
    ("duckdb-1.5.5", "mapped_columns"): "it shows NULL for a partition column under column mapping, in Spark's tables too",
}
"""(reader, scene): what that reader lacks. It must fail or be wrong there: one that learns it fails this test until its line goes."""


class Gallery:
    """The scenes' tables, each made when it is asked for first."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._made: dict[str, tuple[str, list[dict[str, Any]]]] = {}

    def show(self, name: str) -> tuple[str, list[dict[str, Any]]]:
        """Its path and the rows that are meant to be there."""
        if name not in self._made:
            path = str(self._factory.mktemp(name) / "table")
            self._made[name] = path, SCENES[name](path)
        return self._made[name]


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return Gallery(tmp_path_factory)


@pytest.mark.parametrize("name", SCENES)
def test_we_read_what_we_wrote(name: str, gallery: Gallery) -> None:
    path, wanted = gallery.show(name)
    table = gl.delta.open(path)
    assert counted(table.scan().to_arrow()) == counted(wanted)
    assert table.count() == len(wanted)


def _read(ask: Ask, reader: str, path: str) -> Any:
    try:
        return counted(ask(reader).read(path))
    except EngineError as error:
        return error


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", SCENES)
def test_others_read_what_we_wrote(name: str, reader: str, gallery: Gallery, engine: Ask) -> None:
    path, wanted = gallery.show(name)
    found = _read(engine, reader, path)
    assert (found == counted(wanted)) is ((reader, name) not in CANNOT), (found, counted(wanted))


TRAVELLERS = ("deltalake-1.6.6", "duckdb-1.5.5")


@pytest.mark.parametrize("reader", TRAVELLERS)
@pytest.mark.parametrize("name", ["vectors", "merge_rows", "restored", "checkpointed", "overwrite_partitions"])
def test_others_read_every_version(name: str, reader: str, gallery: Gallery, engine: Ask) -> None:
    path, _ = gallery.show(name)
    table = gl.delta.open(path)
    for version in range(1, table.version + 1):
        found = engine(reader).read(path, at=version)
        assert counted(found) == counted(table.at(version=version).scan().to_arrow()), version


CONDITIONS: dict[str, Callable[[Any], bool]] = {
    "id >= 7 and id < 12": lambda row: 7 <= row["id"] < 12,
    "n > 4": lambda row: row["n"] > 4,
    "v = 'v9'": lambda row: row["v"] == "v9",
    "v is null": lambda row: row["v"] is None,
    "p = 'a b'": lambda row: row["p"] == "a b",
    "p is null": lambda row: row["p"] is None,
    "p = 'é/ü' or id = 3": lambda row: row["p"] == "é/ü" or row["id"] == 3,
    "\"at\" = '2026-01-01T12:09:00.000009Z'": lambda row: row["id"] == 9,
    "\"at\" > '2026-01-01T12:16:00.000016Z'": lambda row: row["id"] > 16,
}
"""Of rows, by our statistics and partition values, which others skip by."""


@pytest.mark.parametrize("reader", ["gapless", "deltalake-1.6.6", "duckdb-1.5.5"])
@pytest.mark.parametrize("name", ["append", "update_rows", "vectors_in_partitions", "checkpointed", "compact"])
def test_conditions_skip_no_row(name: str, reader: str, gallery: Gallery, engine: Ask) -> None:
    path, wanted = gallery.show(name)
    for where, holds in CONDITIONS.items():
        table = (
            gl.delta.open(path).scan(where=where).to_arrow() if reader == "gapless" else engine(reader).read(path, where=where)
        )
        assert counted(table) == counted([row for row in wanted if holds(row)]), where


def test_deltalake_reads_our_change_feed(gallery: Gallery, engine: Ask) -> None:
    """It takes the paths of change files for what they say, not decoded, so this is without partitions."""
    path, _ = gallery.show("change_feed_unpartitioned")
    ours = gl.delta.open(path).changes(1).to_arrow()
    theirs = engine("deltalake-1.6.6").do("changes", path=path, start=1)
    columns = set(ours.column_names) - {"_commit_timestamp"}
    assert counted(theirs, columns) == counted(ours, columns)


@pytest.mark.parametrize("each", [pytest.param(2, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.soak)])
def test_spark_reads_what_we_wrote(gallery: Gallery, engine: Ask, each: int) -> None:
    wrong = {}
    for name in [*SCENES][::each]:
        path, wanted = gallery.show(name)
        found = _read(engine, "spark", path)
        if (found == counted(wanted)) is not (("spark", name) not in CANNOT):
            wrong[name] = found
    assert not wrong
    path, _ = gallery.show("change_feed")
    ours = gl.delta.open(path).changes(1).to_arrow()
    theirs = engine("spark").do("changes", path=path, start=1)
    columns = set(ours.column_names) - {"_commit_timestamp"}
    assert counted(theirs, columns) == counted(ours, columns)
