"""What `append` takes: every kind of object gives its rows, exactly, or says why not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from gapless.errors import InvalidValue, UnreadableInput
from gapless.files.ingest.batches import Batches, merge_types
from gapless.tables.shared.inputs.rows import as_batches

T0 = datetime(2020, 1, 1, tzinfo=UTC)
PLAIN = pa.table({"n": [1, 2, 3], "s": ["a", None, "c"]})


def table(batches: Batches) -> pa.Table:
    found = pa.Table.from_batches(batches, schema=batches.schema)
    found.validate(full=True)
    return found


class Stream:
    """Anything with `__arrow_c_stream__`."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return PLAIN.__arrow_c_stream__(requested_schema)


class Array:
    """Anything with `__arrow_c_array__`."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return PLAIN.to_batches()[0].__arrow_c_array__(requested_schema)


def relation() -> object:
    arrow = PLAIN  # noqa: F841 - DuckDB finds it by its name
    return duckdb.sql("select * from arrow")


@pytest.mark.parametrize(
    ("data", "again"),
    [
        (lambda: PLAIN, True),
        (lambda: PLAIN.to_batches()[0], True),
        (PLAIN.to_reader, False),
        (Stream, False),
        (Array, True),
        (lambda: ds.dataset(PLAIN), False),
        (lambda: ds.dataset(PLAIN).scanner(), False),
        (lambda: pl.DataFrame(PLAIN), False),
        (lambda: pl.DataFrame(PLAIN).lazy(), False),
        (relation, False),
        (PLAIN.to_pandas, True),
        (PLAIN.to_pydict, True),
        (PLAIN.to_pylist, True),
        (lambda: iter(PLAIN.to_pylist()), True),
        (lambda: PLAIN.to_batches(max_chunksize=2), False),
        (lambda: iter(PLAIN.to_batches(max_chunksize=2)), False),
    ],
)
def test_every_kind_gives_its_rows(data: object, again: bool) -> None:
    batches = as_batches(data())  # type: ignore[operator] # a lambda, as parametrize gives it
    assert batches.schema.metadata is None
    assert batches.rows_hint in (3, None)
    assert table(batches).to_pylist() == PLAIN.to_pylist()
    if again:
        assert table(batches).to_pylist() == PLAIN.to_pylist()
    else:
        with pytest.raises(UnreadableInput, match="read already"):
            list(batches)


@pytest.mark.parametrize(
    "data",
    [
        None,
        5,
        object(),
        "file.parquet",
        [1, 2],
        [PLAIN],
        [{"a": 1}, 2],
        [{1: "a"}],
        pa.array([1]),
        pa.chunked_array([[1]]),
        pd.Series([1]),
        {"a": 1},
        {"a": "text"},
        {"a": [1], "b": [1, 2]},
        {1: [1]},
        {"a": [1, "x"]},
        {"a": np.array([1, "x"], dtype=object)},
        pd.DataFrame({"a": [1, "x"]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame({"a": [1]}, index=pd.Index([1], name="a")),
        pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2020-01-01"])),
        pd.DataFrame({"a": [1]}, index=["x"]),
        pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)], names=["x", None])),
        [PLAIN.to_batches()[0], PLAIN.select(["n"]).to_batches()[0]],
        [PLAIN.to_batches()[0], 5],
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_other_objects_are_refused_in_three_parts(data: object) -> None:
    with pytest.raises(UnreadableInput) as caught:
        list(as_batches(data))
    assert caught.value.what
    assert caught.value.why
    assert caught.value.fix
    assert caught.value.source


def test_refusal_names_the_type_and_what_is_accepted() -> None:
    with pytest.raises(UnreadableInput, match=r"type datetime\.date .*pandas.*Polars.*DuckDB"):
        as_batches(date(2020, 1, 1))
    with pytest.raises(UnreadableInput, match="append_file"):
        as_batches("prices.parquet")


def test_no_library_is_imported_that_the_data_did_not_bring() -> None:
    # Dicts are left out: pyarrow itself imports pandas, where it is installed, to look at a list.
    code = (
        "import sys, pyarrow as pa; from gapless.tables.shared.inputs.rows import as_batches, UnreadableInput\n"
        "table = pa.table({'a': pa.nulls(3)})\n"
        "for data in (table, table.to_reader(), table.to_batches(), 5):\n"
        "    try: list(as_batches(data))\n"
        "    except UnreadableInput: print('refused')\n"
        "print([m for m in ('pandas', 'polars', 'duckdb') if m in sys.modules])"
    )
    source = str(Path(__file__).parents[3] / "src")
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source}
    )
    assert done.stdout.split("\n")[:2] == ["refused", "[]"], done.stderr


# ---- streams


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt("stop"), RuntimeError("feed lost"), StopAsyncIteration(), OSError(5, "disk")]
)
@pytest.mark.parametrize("kind", ["reader", "batches"])
def test_error_in_the_middle_of_a_stream_is_not_touched(error: BaseException, kind: str) -> None:
    def feed() -> Iterator[pa.RecordBatch]:
        yield from PLAIN.to_batches()
        raise error

    data = pa.RecordBatchReader.from_batches(PLAIN.schema, feed()) if kind == "reader" else feed()
    batches = iter(as_batches(data))
    assert next(batches).num_rows == 3
    with pytest.raises(type(error)) as caught:
        next(batches)
    assert caught.value is error


def test_error_of_a_generator_of_dicts_is_not_touched() -> None:
    def feed() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(as_batches(feed()))


def test_streams_are_lazy() -> None:
    asked = []

    def feed() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            asked.append(number)
            yield pa.record_batch({"n": [number]})

    batches = iter(as_batches(pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), feed())))
    next(batches)
    assert len(asked) <= 2


# ---- pandas


def test_pandas_named_index_becomes_a_column() -> None:
    times = pd.DatetimeIndex(["2020-01-01", "2020-01-02"], name="ts", tz="UTC")
    found = table(as_batches(pd.DataFrame({"v": [1, 2]}, index=times)))
    assert found.column_names == ["v", "ts"]
    assert found["ts"][0].as_py() == T0
    ranged = pd.DataFrame({"v": [1, 2]}, index=pd.RangeIndex(2, name="n"))
    assert table(as_batches(ranged))["n"].to_pylist() == [0, 1]
    several = pd.DataFrame({"v": [1]}, index=pd.MultiIndex.from_tuples([("a", 2)], names=["s", "n"]))
    assert table(as_batches(several)).to_pylist() == [{"v": 1, "s": "a", "n": 2}]


def test_pandas_index_that_counts_rows_is_dropped() -> None:
    frame = pd.DataFrame({"v": [1, 2, 3]})
    assert table(as_batches(frame)).column_names == ["v"]
    assert table(as_batches(frame[frame["v"] != 2])).to_pydict() == {"v": [1, 3]}


def test_type_07_pandas_columns() -> None:
    frame = pd.DataFrame({"s": ["a", None], "none": pd.Series([None, None], dtype=object), "f": [1.5, float("nan")]})
    found = table(as_batches(frame))
    assert found["s"].to_pylist() == ["a", None]
    assert found.schema.field("none").type == pa.null()
    assert found["f"].to_pylist() == [1.5, None]


# ---- dicts


def test_type_08_first_rows_without_a_value_freeze_nothing() -> None:
    dice = random.Random(8)
    rows = ({"name": None, "x": dice.random()} for _ in range(5_000))
    found = table(as_batches(iter([*rows, {"name": "N", "x": 0.5}])))
    assert found.num_rows == 5_001
    assert found.schema == pa.schema([("name", pa.string()), ("x", pa.float64())])
    assert found["name"].to_pylist()[-2:] == [None, "N"]


@pytest.mark.parametrize("rows", [3, 1])
def test_type_08_chunks_of_dicts_make_one_schema(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr("gapless.tables.shared.inputs.rows.CHUNK_ROWS", rows)
    data = [
        {"a": None},
        {"a": 1, "l": [None]},
        {"a": 1, "b": "x", "l": [2]},
        {"a": 0.5, "st": {"p": 1}},
        {"a": None, "st": {"q": "r"}},
    ]
    batches = as_batches(iter(data))
    assert batches.rows_hint == 5
    assert batches.schema == pa.schema(
        [
            ("a", pa.float64()),
            ("l", pa.list_(pa.int64())),
            ("b", pa.string()),
            ("st", pa.struct([("p", pa.int64()), ("q", pa.string())])),
        ]
    )
    found = table(batches).to_pylist()
    assert [row["a"] for row in found] == [None, 1.0, 1.0, 0.5, None]
    assert [row["b"] for row in found] == [None, None, "x", None, None]
    assert [row["l"] for row in found] == [None, [None], [2], None, None]
    assert found[3]["st"] == {"p": 1, "q": None}
    assert found[4]["st"] == {"p": None, "q": "r"}


@pytest.mark.parametrize("chunk", [1, 10])
@pytest.mark.parametrize(
    "values",
    [
        [1, "a"],
        [1, True],
        ["a", b"b"],
        [datetime(2020, 1, 1), T0],
        [date(2020, 1, 1), datetime(2020, 1, 1, 5)],
        [Decimal("1.5"), 1.5],
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_values_that_do_not_go_together_are_refused(monkeypatch: pytest.MonkeyPatch, chunk: int, values: list[object]) -> None:
    monkeypatch.setattr("gapless.tables.shared.inputs.rows.CHUNK_ROWS", chunk)
    with pytest.raises(UnreadableInput, match="column 'v'"):
        list(as_batches([{"v": value} for value in values]))


@pytest.mark.parametrize("chunk", [1, 10])
@pytest.mark.parametrize("values", [[1, 2**64], [-1, 2**63], [0.5, 2**53 + 1]], ids=lambda thing: type(thing).__name__)
def test_integers_that_would_lose_something_name_their_row(
    monkeypatch: pytest.MonkeyPatch, chunk: int, values: list[object]
) -> None:
    monkeypatch.setattr("gapless.tables.shared.inputs.rows.CHUNK_ROWS", chunk)
    with pytest.raises(InvalidValue) as caught:
        list(as_batches([{"v": value} for value in values]))
    assert caught.value.row == (0 if values[0] == -1 and chunk == 1 else 1)


@pytest.mark.parametrize("chunk", [1, 10])
def test_integers_above_int64_are_unsigned(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr("gapless.tables.shared.inputs.rows.CHUNK_ROWS", chunk)
    found = table(as_batches([{"v": 1}, {"v": None}, {"v": 2**64 - 1}]))
    assert found.schema.field("v").type == pa.uint64()
    assert found["v"].to_pylist() == [1, None, 2**64 - 1]


def test_pandas_values_in_dicts_keep_their_nanoseconds() -> None:
    exact = pd.Timestamp("2020-01-01T00:00:00.123456789Z")
    found = table(as_batches([{"t": exact}, {"t": pd.NaT}, {"t": T0}]))["t"]
    assert found.type.unit == "ns"
    assert found.cast(pa.int64()).to_pylist() == [1577836800123456789, None, 1577836800000000000]
    assert table(as_batches([{"v": pd.NA}, {"v": 1}]))["v"].to_pylist() == [None, 1]
    assert table(as_batches([{"t": pd.NaT}]))["t"].null_count == 1


def test_nan_is_not_null_in_dicts() -> None:
    for data in ([{"v": float("nan")}, {"v": None}], {"v": [float("nan"), None]}):
        found = table(as_batches(data))["v"]
        assert found.null_count == 1
        assert found[0].as_py() != found[0].as_py()


def test_columns_of_arrays() -> None:
    data = {
        "a": np.array([1.0, np.nan]),
        "b": pd.Series([1, 2]),
        "c": pl.Series(["x", "y"]),
        "d": pa.array([1, 2]),
        "e": (1, 2),
    }
    found = table(as_batches(data))
    assert found["a"].null_count == 0
    assert found["c"].to_pylist() == ["x", "y"]
    assert found["e"].to_pylist() == [1, 2]
    assert found.num_rows == 2


@pytest.mark.parametrize("data", [[], iter(()), {}, PLAIN.slice(0, 0), PLAIN.to_pandas()[:0], pl.DataFrame(PLAIN).clear()])
def test_nothing_is_no_rows(data: object) -> None:
    assert table(as_batches(data)).num_rows == 0


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (pa.int64(), pa.null(), pa.int64()),
        (pa.int64(), pa.uint64(), pa.uint64()),
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"), pa.timestamp("ns", "UTC")),
        (pa.string(), pa.large_string(), None),
        (pa.string(), pa.binary(), TypeError),
        (pa.decimal128(3, 1), pa.float64(), TypeError),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), TypeError),
        (pa.int64(), pa.string(), TypeError),
        (pa.bool_(), pa.int64(), TypeError),
    ],
)
def test_merge_types_loses_nothing_whichever_comes_first(left: pa.DataType, right: pa.DataType, both: object) -> None:
    for one, other in ((left, right), (right, left)):
        if both is TypeError:
            with pytest.raises(TypeError):
                merge_types(one, other)
        else:
            assert both is None or merge_types(one, other) == both
            assert merge_types(one, other) is not None
