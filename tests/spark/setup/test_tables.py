"""Both kinds of table given to `gl.spark`: what one kind lacks is refused with what to call or leave out instead."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import InvalidOption, NotSupported, TableNotFound
from spark.kinds import COLUMNS


@pytest.fixture(autouse=True)
def _pyspark(require: Callable[[object, str], None]) -> None:
    require(find_spec("pyspark"), "pyspark is not installed: pip install 'gapless[spark]'")


NO_FRAME: Any = None
"""What is refused is refused before a row is looked at."""
DELTA_LACKS: dict[str, Callable[[Any], object]] = {
    "gl.spark.overwrite(frame, table, where=…)": lambda table: gl.spark.replace(NO_FRAME, table, (None, None)),
    "gl.spark.write(frame, table) with": lambda table: gl.spark.backfill(NO_FRAME, table, lambda *_: None),
    "gl.spark.upsert replaces rows by key": lambda table: gl.spark.write(NO_FRAME, table, on_overlap="skip"),
    "Pass where=, and columns=": lambda table: gl.spark.read(NO_FRAME, table, start=1),
    "Pass where=": lambda table: gl.spark.delete(NO_FRAME, table, entity={"s": 1}),
    "table.zorder(columns)": lambda table: gl.spark.compact(NO_FRAME, table, cluster_by="n"),
    "Leave index, entity and bucket out": lambda table: gl.spark.batch_writer(gl.delta.open(table), index="n", bucket=1),
}
SERIES_LACK: dict[str, Callable[[Any], object]] = {
    "Use gl.spark.upsert": lambda table: gl.spark.merge(NO_FRAME, table, "t.n = s.n"),
    "Pass start, end and entity": lambda table: gl.spark.read(NO_FRAME, table, where="n = 1"),
    "new columns are added as they come": lambda table: gl.spark.write(NO_FRAME, table, schema_mode="merge"),
    "gl.spark.replace replaces a range": lambda table: gl.spark.overwrite(NO_FRAME, table, where="n = 1"),
    "Leave it out": lambda table: gl.spark.compact(NO_FRAME, table, where="n = 1"),
}


@pytest.mark.parametrize("advice", DELTA_LACKS)
def test_what_delta_tables_lack_names_what_there_is(tmp_path: Path, advice: str) -> None:
    gl.delta.create(tmp_path / "t", COLUMNS)
    with pytest.raises((NotSupported, InvalidOption), match="a Delta table") as caught:
        DELTA_LACKS[advice](str(tmp_path / "t"))
    assert advice in str(caught.value)


@pytest.mark.parametrize("advice", SERIES_LACK)
def test_what_time_series_tables_lack_names_what_there_is(tmp_path: Path, advice: str) -> None:
    gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    with pytest.raises((NotSupported, InvalidOption), match="a time-series table") as caught:
        SERIES_LACK[advice](str(tmp_path / "t"))
    assert advice in str(caught.value)


def test_views_and_places_without_a_table_are_refused(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", COLUMNS)
    with pytest.raises(InvalidOption, match="cannot be written to"):
        gl.spark.write(NO_FRAME, table.at(0))  # type: ignore[arg-type]  # as a wrong call
    for call in (lambda place: gl.spark.read(NO_FRAME, place), lambda place: gl.spark.write(NO_FRAME, place)):
        with pytest.raises(TableNotFound):
            call(str(tmp_path / "nothing"))
    memory = gl.delta.create("memory:///spark_tables", COLUMNS)
    with pytest.raises(NotSupported, match="lies in the memory of this process"):
        gl.spark.write(NO_FRAME, memory)


def test_an_option_that_no_read_has_is_named(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", COLUMNS)
    with pytest.raises(InvalidOption, match="no option 'colums'"):
        gl.spark.read(NO_FRAME, table, colums=["n"])  # type: ignore[call-arg]  # as a wrong call
