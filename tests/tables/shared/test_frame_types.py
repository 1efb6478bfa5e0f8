"""Columns of data frames that Arrow has no type for are refused by the frame's own type, by name, with what to do."""

from __future__ import annotations

import datetime as dt

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gapless.errors import GaplessError, InvalidValue, UnreadableInput, UnsupportedType
from gapless.tables.shared.inputs.rows import as_batches


def refused(data: object, column: str, *words: str) -> GaplessError:
    with pytest.raises((UnsupportedType, UnreadableInput)) as caught:
        list(as_batches(data))
    text = str(caught.value)
    assert [word for word in (repr(column), *words) if word not in text] == []
    assert caught.value.why
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    ("sql", "type_", "remedy"),
    [
        ("'101'::BIT", "BIT", "VARCHAR"),
        ("1::UHUGEINT", "UHUGEINT", "DECIMAL(38, 0)"),
        ("[1::UHUGEINT]", "UHUGEINT[]", "DECIMAL(38, 0)"),
        ("{'a': [1::UHUGEINT]}", "STRUCT(a UHUGEINT[])", "DECIMAL(38, 0)"),
        ("map{'k': '1'::BIT}", "MAP(VARCHAR, BIT)", "VARCHAR"),
        ("array_value(1::UHUGEINT)", "UHUGEINT[1]", "VARCHAR"),
        ("timetz '12:00:00+02'", "TIME WITH TIME ZONE", "VARCHAR"),
        ("interval 1 month", "INTERVAL", "integers"),
        ("union_value(num := 1)", "UNION(num INTEGER)", "union_extract"),
    ],
)
def test_types_of_duckdb(sql: str, type_: str, remedy: str) -> None:
    relation = duckdb.connect().sql(f"select 1 as n, {sql} as x")
    assert refused(relation, "x", type_, remedy).facts["type"] == type_


def test_other_types_of_duckdb_are_taken() -> None:
    sql = (
        "select 1::HUGEINT a, 'x'::ENUM('x') b, {'bit': 1} c, [1, 2] d, map{'k': 1} e, time '12:00' f, uuid() g, null h, 1.5 i"
    )
    (batch,) = as_batches(duckdb.connect().sql(sql))
    assert batch.num_columns == 9


OF_POLARS = [(pl.Series([object()], dtype=pl.Object), "Object", "map_elements")]
if hasattr(pl, "Int128"):  # 1.17 has none
    OF_POLARS += [
        (pl.Series([1], dtype=pl.Int128), "Int128", "pl.Decimal(38, 0)"),
        (pl.Series([[1]], dtype=pl.List(pl.Int128)), "List(Int128)", "pl.Decimal(38, 0)"),
        (pl.Series([{"a": 1}], dtype=pl.Struct({"a": pl.Int128})), "Struct({'a': Int128})", "pl.Decimal(38, 0)"),
    ]


@pytest.mark.parametrize(("series", "type_", "remedy"), OF_POLARS, ids=map(str, range(len(OF_POLARS))))
def test_types_of_polars(series: pl.Series, type_: str, remedy: str) -> None:
    frame = pl.DataFrame({"n": [1], "x": series})
    for data in (frame, frame.lazy()):
        assert refused(data, "x", remedy).facts["type"] == type_


def test_other_types_of_polars_are_taken() -> None:
    frame = pl.DataFrame(
        {
            "category": pl.Series(["a"], dtype=pl.Categorical),
            "enum": pl.Series(["a"], dtype=pl.Enum(["a"])),
            "null": pl.Series([None], dtype=pl.Null),
            "struct": [{"x": 1}],
            "list": [[1]],
            "array": pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)),
            "decimal": pl.Series(["1.5"], dtype=pl.Decimal(38, 2)),
            "time": [dt.time(1)],
        }
    )
    (batch,) = as_batches(frame)
    assert batch.num_columns == frame.width


@pytest.mark.parametrize(
    ("series", "words"),
    [
        (pd.Series([1, "a"]), ("object", "astype")),
        (pd.Series([object()]), ("object", "astype")),
        (pd.Series([{1}, b"a"]), ("object", "astype")),
        (pd.Series([b"a", 1.5]), ("object", "astype")),
        (pd.Series([2**70]), ("object", "astype")),
        (pd.Series(["\ud800"]), ("object", "surrogates")),
        (pd.Series([[1, "a"]]), ("object", "astype")),
        (pd.Series([1 + 2j]), ("complex128", ".real")),
        (pd.Series(pd.arrays.SparseArray([1, 0])), ("Sparse[int64, 0]", "to_dense")),
        (pd.Series([pd.Period("2020-01")]), ("period[M]", "dt.to_timestamp()")),
        (pd.Series([pd.Interval(1, 2)]), ("interval[int64, right]", ".left")),
    ],
    ids=map(str, range(11)),
)
def test_types_of_pandas(series: pd.Series, words: tuple[str, ...]) -> None:
    error = refused(pd.DataFrame({"n": 1, "x": series}), "x", *words)
    str(error).encode()


def test_arrow_columns_of_pandas_are_held_against_their_type() -> None:
    raw = pa.Array.from_buffers(pa.decimal128(4, 2), 1, [None, pa.py_buffer((39996).to_bytes(16, "little"))])
    frame = pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(raw))})
    with pytest.raises(InvalidValue, match="'x'"):
        list(as_batches(frame))


def test_what_a_query_says_as_it_runs_is_typed() -> None:
    connection = duckdb.connect()
    for sql in (
        "select ('x' || range)::int as x from range(3)",
        "select error('no') as x",
        "select (range * 1e300)::int as x from range(3)",
    ):
        with pytest.raises(UnreadableInput, match="DuckDBPyRelation"):
            list(as_batches(connection.sql(sql)))
    late = connection.sql("select case when range = 299999 then error('late') else range end as x from range(300000)")
    with pytest.raises(UnreadableInput):
        list(as_batches(late))
    with pytest.raises(UnreadableInput, match=r"Its library says: .*\bb\b"):
        as_batches(pl.LazyFrame({"a": [1]}).select("b"))
    with pytest.raises(UnreadableInput):
        as_batches(pl.LazyFrame({"a": ["x"]}).select(pl.col("a").cast(pl.Int64)))


class Interrupted(Exception):
    """The user's own."""


@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt, UnicodeError, OverflowError, ValueError])
def test_what_a_users_iterable_raises_stays_what_it_is(error: type[BaseException]) -> None:
    def rows() -> object:
        yield {"n": 1}
        raise error

    with pytest.raises(error):
        list(as_batches(rows()))
