"""Column types of data frame libraries that Arrow has no type for: refused by their own names, before Arrow is asked for their rows.

The libraries hand such columns over as raw bytes, as numbers that wrap, or without a part of their values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gapless.errors import UnsupportedType

_DUCKDB = {
    "bit": ("DuckDB gives it as bytes of its own layout", "Cast it to VARCHAR in the query"),
    "uhugeint": (
        "Arrow has no such integer, and DuckDB gives values from 2^127 on as negative ones",
        "Cast it to DECIMAL(38, 0), which checks each value, or to VARCHAR",
    ),
    "time with time zone": (
        "DuckDB drops the offset from UTC",
        "Cast it to VARCHAR, or to TIME where the offset does not matter",
    ),
    "interval": ("A table has no type for months, days and microseconds together", "Split it into columns of integers"),
    "union": ("A table has no type for values of several types", "Give each member a column: union_extract(column, 'member')"),
    "bignum": ("DuckDB gives it as bytes of its own layout", "Cast it to DECIMAL(38, 0), or to VARCHAR"),
}
"""Why a DuckDB type cannot be kept and what to do, by its id."""
_WIDE = ("Arrow has no integers of 128 bits", "Cast it to pl.Decimal(38, 0), or to a smaller integer: pl.col(…).cast(…)")
_POLARS = {
    "Object": (
        "Polars gives the addresses of its Python objects, not their values",
        "Turn them into values: pl.col(…).map_elements(…, return_dtype=…)",
    ),
    "Int128": _WIDE,
    "UInt128": _WIDE,
    "Unknown": ("Polars does not know its type yet", "Cast it to the type it is to have"),
}
"""Why a Polars type cannot be kept and what to do, by its name."""


def check_duckdb_types(relation: Any) -> None:
    """Raise UnsupportedType for a column of a DuckDB relation whose type Arrow cannot hold, at any depth."""
    for name, type_ in zip(relation.columns, relation.types, strict=True):
        _check(str(name), type_, _duckdb_ids(type_), _DUCKDB, "DuckDB's")


def _duckdb_ids(type_: Any) -> Iterator[str]:
    kind = str(type_.id)
    yield kind
    if kind in ("list", "struct", "map", "array"):
        for name, child in type_.children:
            if name != "size":
                yield from _duckdb_ids(child)


def check_polars_types(frame: Any) -> None:
    """Raise UnsupportedType for a column of a Polars frame whose dtype Arrow cannot hold, at any depth."""
    for name, dtype in frame.schema.items():
        _check(name, dtype, _polars_names(dtype), _POLARS, "Polars'")


def _polars_names(dtype: Any) -> Iterator[str]:
    yield str(dtype.base_type())
    for field in getattr(dtype, "fields", ()):
        yield from _polars_names(field.dtype)
    inner = getattr(dtype, "inner", None)
    if inner is not None:
        yield from _polars_names(inner)


def _check(name: str, type_: Any, kinds: Iterator[str], refused: Mapping[str, tuple[str, str]], whose: str) -> None:
    for kind in kinds:
        if kind in refused:
            why, fix = refused[kind]
            raise UnsupportedType(
                f"column {name!r} of {whose} type {type_} cannot be read as rows",
                why=why,
                fix=fix,
                column=name,
                type=str(type_),
            )


def check_pandas_types(frame: Any) -> None:
    """Raise UnsupportedType for a column of a pandas frame whose dtype Arrow cannot hold."""
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        found = _PANDAS.get(type(dtype).__name__) or (_COMPLEX if dtype.kind == "c" else None)
        if found is not None:
            why, fix = found
            raise UnsupportedType(
                f"column {str(name)!r} of pandas' type {dtype} cannot be read as rows",
                why=why, fix=fix, column=str(name), type=str(dtype),
            )  # fmt: skip


_COMPLEX = ("A table has no complex numbers", "Give the parts as columns: series.to_numpy().real and .imag")
_PANDAS = {
    "SparseDtype": ("Arrow does not take sparse columns", "Make it dense: series.sparse.to_dense()"),
    "IntervalDtype": (
        "A table has no intervals of values",
        "Give the ends as columns: pd.arrays.IntervalArray(series).left and .right",
    ),
    "PeriodDtype": (
        "A table has no periods, and their numbers would count from 1970",
        "Give their starts: series.dt.to_timestamp()",
    ),
}
"""Why a pandas type cannot be kept and what to do, by the name of its class."""
