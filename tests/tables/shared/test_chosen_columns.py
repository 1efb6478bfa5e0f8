"""Which columns a scan or a change feed gives back: a list of names, or all but some; nothing that could mean the contrary."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, UnknownColumn

ROWS = {"n": [1], "v": [1.5], "Überfluss": ["x"]}
NAMES = list(ROWS)
Read = Callable[..., Any]


@pytest.fixture(params=["series", "delta", "view", "changes", "delta changes"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Read:
    """A way to read that takes `columns` and `exclude`; it gives the table's columns that come back."""
    path, kind = tmp_path / "t", request.param
    rows: Read
    if "delta" in kind:
        delta = gl.delta.create(path, pa.table(ROWS).schema, properties={"delta.enableChangeDataFeed": "true"})
        delta.append(ROWS)
        rows = (lambda **given: delta.changes(1, **given)) if "changes" in kind else delta.scan
    else:
        series = gl.create(path, index="n", index_type="int64", bucket=1)
        series.append(ROWS)
        seen = series.at(2) if kind == "view" else series
        rows = (lambda **given: series.changes(2, **given)) if kind == "changes" else seen.scan

    def names(**given: Any) -> list[str]:
        found = rows(**given).to_arrow()
        assert found.num_rows == 1
        return [name for name in found.column_names if not name.startswith("_")]

    return names


def test_names_in_their_order(read: Read) -> None:
    assert read() == NAMES
    assert read(columns=None, exclude=None) == NAMES
    for given in (["v", "n"], ("v", "n"), iter(["v", "n"]), (name for name in ("v", "n")), dict.fromkeys(["v", "n"]).keys()):
        assert read(columns=given) == ["v", "n"]
    many: tuple[Any, ...] = (np.array(["v", "n"]), pd.Index(["v", "n"]), pl.Series(["v", "n"]))
    for given in many:
        assert read(columns=given) == ["v", "n"]


def test_all_but_some(read: Read) -> None:
    assert read(exclude=["v"]) == ["n", "Überfluss"]
    assert read(exclude={"v", "n"}) == ["Überfluss"]
    assert read(exclude=[]) == NAMES
    assert read(exclude=("Überfluss",)) == ["n", "v"]


@pytest.mark.parametrize("option", ["columns", "exclude"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"v": 0}, "exclude=['v']"),
        ({"v": 1, "n": True}, "columns=['v', 'n']"),
        ({"v": 1, "n": 0}, "columns=['v']"),
        (OrderedDict(v=pl.Float64()), "columns=['v']"),
        ({}, "mapping"),
        ("v", "=['v']"),
        (b"v", "one text"),
        (5, "int"),
        (object(), "object"),
        ([5], "5"),
        ([None], "NoneType"),
        ([["v"]], "list"),
        (pa.array(["v"]), "StringScalar"),
        (pa.schema([("v", pa.int64())]), "table.schema.names"),
        (["v", "n", "v"], "'v' more than once"),
    ],
    ids=map(str, range(15)),
)
def test_what_is_no_list_of_names_is_refused_by_its_type(read: Read, option: str, given: object, said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read(**{option: given})
    assert caught.value.option == option
    assert caught.value.value is given
    assert said in str(caught.value)
    assert caught.value.why
    assert caught.value.fix


def test_a_set_has_no_order(read: Read) -> None:
    for given in ({"v", "n"}, frozenset(["v"])):
        with pytest.raises(InvalidOption, match="set"):
            read(columns=given)


@pytest.mark.parametrize("option", ["columns", "exclude"])
def test_a_name_that_is_not_there_is_an_error_with_the_nearest(read: Read, option: str) -> None:
    with pytest.raises(UnknownColumn, match="'Überfluss'") as caught:
        read(**{option: ["Überfluß"]})
    assert caught.value.column == "Überfluß"


def test_one_or_the_other(read: Read) -> None:
    with pytest.raises(InvalidOption, match="both given"):
        read(columns=["n"], exclude=["v"])


def test_a_table_without_columns_refuses_kinds_too(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    assert table.scan(columns=["v"]).to_arrow().num_columns == 0
    for option in ("columns", "exclude"):
        with pytest.raises(InvalidOption, match="mapping"):
            table.scan(**{option: {"v": 0}})  # type: ignore[arg-type]  # refused


def test_a_column_that_is_called_as_one_of_the_feed_can_be_left_out(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1], "_change_type": ["own"]})
    with pytest.raises(InvalidOption, match=r"exclude=\['_change_type'\]"):
        table.changes(2)
    assert table.changes(2, exclude=["_change_type"]).to_arrow()["_change_type"].to_pylist() == ["insert"]


def test_where_may_name_what_does_not_come_back(tmp_path: Path) -> None:
    delta = gl.delta.create(tmp_path / "d", pa.table(ROWS).schema)
    series = gl.create(tmp_path / "s", index="n", index_type="int64", bucket=1)
    for table in (delta, series):
        table.append(ROWS)
        assert table.scan(where="v > 1 and n = 1", exclude=["v", "n"]).to_arrow().to_pydict() == {"Überfluss": ["x"]}
        assert table.scan(exclude=NAMES).count() == 1
