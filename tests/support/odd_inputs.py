"""Odd inputs from a seed: Python values of all sorts, in every object that is read as rows, and bytes of files that were damaged."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
import math
import random
import uuid
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from support.forbidden import decimals, texts

HOUR = dt.datetime(2026, 1, 5, 9)
_VALUES: tuple[Callable[[random.Random], Any], ...] = (
    lambda rng: rng.choice([0, 1, -1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 2**70, 10**400]),
    lambda rng: rng.choice([0.5, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7e308, 0.1, 1e300]),
    lambda rng: rng.choice(["", "a", "é", "\ud800", "\0", "x" * 200, "NaN", "2026-01-05", "2026-01-05T09:00", "1e5", "0x1", "😀", "'\"\\"]),
    lambda rng: rng.choice([b"", b"a", b"\xff\xfe", bytearray(b"b"), memoryview(b"c")]),
    lambda rng: rng.choice([None, True, False, ..., NotImplemented, object(), type, len, 1j, range(3), Exception("x")]),
    lambda rng: rng.choice([HOUR, HOUR.replace(tzinfo=dt.UTC), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.date(1, 1, 1), dt.date.max, dt.time(1), dt.timedelta.max, dt.timedelta(1)]),
    lambda rng: rng.choice([decimal.Decimal(text) for text in ("1.5", "NaN", "sNaN", "Infinity", "1E+50", "1E-50", "0E+9", "-0", "9" * 77)]),
    lambda rng: rng.choice([np.int8(1), np.uint64(2**63), np.float16(1), np.float32(0.1), np.bool_(True), np.datetime64("NaT"), np.datetime64(2**62, "s"), np.datetime64("2026-01-05"), np.timedelta64(1, "M"), np.str_("a"), np.complex64(1), np.array([1, 2]), np.array([[1], [2]])]),
    lambda rng: rng.choice([pd.NaT, pd.NA, pd.Timestamp(0), pd.Timestamp.max, pd.Timedelta(1), pd.Period("2026-01"), pd.Interval(0, 1), pd.Categorical(["a"])]),
    lambda rng: rng.choice([[], [1], [1, "a"], [[1], None], (1, 2), {1, 2}, frozenset(), {}, {"a": 1}, {1: 2}, {"a": {"b": []}}, [{"a": 1}, {"a": "x"}], [None, [2**70]]]),
    lambda rng: rng.choice([uuid.UUID(int=1), pa.scalar(1), pa.scalar(None), pa.array([1]), pa.NA, pl.Series([1]), dt.UTC]),
)  # fmt: skip


def value(rng: random.Random) -> Any:
    """One value of any sort."""
    return rng.choice(_VALUES)(rng)


def values(rng: random.Random, count: int) -> list[Any]:
    """Values of one sort, of one value, or of all sorts."""
    kind = rng.choice(_VALUES)
    how = rng.random()
    if how < 0.3:
        return [value(rng) for _ in range(count)]
    if how < 0.6:
        return [kind(rng)] * count
    return [kind(rng) if rng.random() < 0.8 else None for _ in range(count)]


_COLUMNS = ("ts", "v", "w", "n")


def columns(rng: random.Random) -> dict[str, list[Any]]:
    """Columns of one length; most have good times in `ts`."""
    count = rng.choice([0, 1, 1, 2, 3])
    names = [name for name in _COLUMNS if rng.random() < 0.6] or ["v"]
    found = {name: values(rng, count) for name in names}
    if rng.random() < 0.7:
        found["ts"] = [HOUR + dt.timedelta(hours=rng.randint(0, 50)) for _ in range(count)]
    return found


_SQL = (
    "1::HUGEINT", "170141183460469231731687303715884105727::HUGEINT", "'x'::BLOB", "'\\xFF'::BLOB", "null", "[1, null]", "{'a': 1}", "map{'k': [1]}",
    "interval 1 day", "'101'::BIT", "uuid()", "'infinity'::timestamp", "'-infinity'::date", "1.5::DECIMAL(38,37)", "time '24:00:00'", "'a'::ENUM('a')",
    "union_value(a := 1)", "error('no')", "'x'::INT", "timestamptz 'infinity'", "timestamp_ns '2026-01-05'", "array_value(1, 2)", "1e400", "1::BIGNUM", "timetz '12:00+15'",
    "'{}'::JSON", "'x'::VARIANT", "1::UTINYINT", "timestamp_s '290000-01-01'", "5::UHUGEINT", "chr(0)", "[[]]", "[{'a': null}]",
)  # fmt: skip
_TYPES: tuple[pa.DataType, ...] = (
    pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary(2), pa.bool_(), pa.null(),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "Nowhere/Town"), pa.timestamp("ms", "+25:00"),
    pa.duration("ns"), pa.month_day_nano_interval(), pa.decimal32(4, 2), pa.decimal64(10, 0), pa.decimal128(38, 10), pa.decimal256(76, 0), pa.decimal128(4, -2),
    pa.list_(pa.int64()), pa.large_list(pa.string()), pa.list_(pa.float32(), 2), pa.list_view(pa.int8()), pa.struct([("a", pa.int64())]), pa.struct([]), pa.map_(pa.string(), pa.int64()),
    pa.dictionary(pa.int8(), pa.string()), pa.run_end_encoded(pa.int16(), pa.string()), pa.uuid(), pa.json_(), pa.bool8(),
    pa.sparse_union([pa.field("a", pa.int64())]), pa.dense_union([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
    pa.list_(pa.struct([("a", pa.list_(pa.decimal128(3, 1)))])), pa.map_(pa.int32(), pa.list_(pa.null())), pa.list_(pa.dictionary(pa.int32(), pa.binary())),
)  # fmt: skip


def arrow_array(rng: random.Random, count: int) -> pa.Array:
    """An array of any type, of zeros, nulls, or what fits; some have damaged values."""
    how = rng.random()
    if how < 0.1:
        return texts(
            [rng.choice([b"a", b"\xff", None, b"\xed\xa0\x80"]) for _ in range(count)],
            rng.choice([pa.string(), pa.large_string(), pa.string_view()]),
        )
    if how < 0.2:
        kind = rng.choice([pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])(4, 2)
        return decimals([rng.choice([0, None, 39996, -1, 2**31 - 1, -(2**31)]) for _ in range(count)], kind)
    type_ = rng.choice(_TYPES)
    if how < 0.5:
        return pa.nulls(count, type_)
    try:
        return pa.array([rng.choice([0, 1, -1, None, "a", b"ab", HOUR, [], {}, [1, 2]]) for _ in range(count)]).cast(type_)
    except (pa.ArrowException, TypeError, ValueError):
        raw = [None, *[pa.py_buffer(rng.randbytes(8 * count + 8))] * 3]
        width = getattr(type_, "bit_width", None) if pa.types.is_primitive(type_) else None
        return pa.nulls(count, type_) if width is None else pa.Array.from_buffers(type_, count, raw[:2])


def frame(rng: random.Random) -> Any:
    """Any object that `append` may be given, most of them rows."""
    made = columns(rng)
    kind = rng.randrange(12)
    if kind == 0:
        return value(rng)
    if kind == 1:
        return made
    if kind in (2, 3):
        rows = [dict(zip(made, row, strict=True)) for row in zip(*made.values(), strict=True)]
        return rows if kind == 2 else iter(rows)
    if kind == 4:
        index = rng.choice([None, None, "ts", "v"])
        found = pd.DataFrame({name: pd.Series(one, dtype=object if rng.random() < 0.5 else None) for name, one in made.items()})
        return found.set_index(index) if index in found else found
    if kind == 5:
        return pl.DataFrame(
            {name: pl.Series(name, one, dtype=rng.choice([None, None, pl.Object]), strict=False) for name, one in made.items()}
        )
    if kind == 6:
        parts = ", ".join(f"{rng.choice(_SQL)} as {name}" for name in rng.sample(_COLUMNS, 2))
        return duckdb.connect().sql(f"select timestamp '2026-01-05 09:00' as at, {parts}")
    count = rng.choice([0, 1, 3])
    arrays = {name: arrow_array(rng, count) for name in rng.sample(_COLUMNS, rng.randint(1, 3))}
    if rng.random() < 0.7:
        arrays["ts"] = pa.array(
            [HOUR + dt.timedelta(hours=row + rng.randint(0, 9)) for row in range(count)], pa.timestamp("us")
        )
    table = pa.table(arrays)
    return [table, table.to_reader(), table.to_batches(), arrays, [table]][rng.randrange(5)]


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Bytes of which some were changed, lost, doubled or added."""
    found = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                del found[at : at + rng.randint(1, 30)]
            case 2:
                found[at:at] = found[at : at + rng.randint(1, 30)]
            case 3:
                found[at:at] = rng.choice(
                    [b"\0", b"\xff", b'"', b"\n", b",", b"\r", b"\xef\xbb\xbf", b"{", b"null", b"1e999", b"\\ud800"]
                )
            case _:
                found[at : at + 4] = rng.randbytes(4)
    return bytes(found)


def whole_file(suffix: str, rng: random.Random) -> bytes:
    """A good file of a few rows."""
    rows = [
        {"ts": f"2026-01-05T{hour:02}:00:00", "v": hour / 2, "w": f"text {hour}, é", "n": hour}
        for hour in range(rng.randint(1, 9))
    ]
    if suffix == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    if suffix == "jsonl":
        return "\n".join(map(json.dumps, rows)).encode()
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    table = table.set_column(0, "ts", table.column("ts").cast(pa.timestamp("us")))
    nested = pa.array([[{"a": "é"}]] * len(rows))
    pq.write_table(
        table.append_column("x", nested),
        sink,
        compression=rng.choice(["none", "snappy", "zstd"]),
        version=rng.choice(["1.0", "2.6"]),
    )
    return sink.getvalue()
