"""What is no timestamp is refused with a way out that works: each expression of each message is evaluated here."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from gapless.errors import SchemaMismatch, UnsupportedType

DAY = datetime(2026, 1, 5, tzinfo=UTC)
NAIVE = DAY.replace(tzinfo=None)
TEXT = "2026-01-05T00:00:00"
SECONDS = 1767571200


def advice(path: Path, data: object, zone: str | None) -> str:
    """What the refusals say of a column `x` as the index of a new table, of one that has rows, and of a Delta table's column."""
    new = gl.create(path / "new", index="x", bucket="1h")
    old = gl.create(path / "old", index="x", bucket="1h")
    old.append(pa.table({"x": pa.array([NAIVE], pa.timestamp("us", zone))}))
    delta = gl.delta.create(path / "delta", schema=pa.schema([("x", pa.timestamp("us", "UTC" if zone else None))]))
    said = []
    for table in (new, old, delta):
        with pytest.raises(SchemaMismatch) as caught:
            table.append(data)
        said.append(str(caught.value))
    assert new.version == 1
    assert "index_type that" not in said[0]
    return "\n".join(said)


CASES: list[tuple[str, Any, list[str]]] = [
    ("integer", [SECONDS * 1000], ["column.cast(pa.timestamp('ms'{zone}))", "pd.to_datetime(df['x'], unit='ms'{utc})"]),
    (
        "float",
        [float(SECONDS)],
        [
            "pd.to_datetime(df['x'], unit='s'{utc})",
            "pc.round(pc.multiply(column, 1_000_000)).cast(pa.int64()).cast(pa.timestamp('us'{zone}))",
        ],
    ),
    (
        "decimal",
        [Decimal(SECONDS)],
        ["pc.round(pc.multiply(column, 1_000_000)).cast(pa.int64()).cast(pa.timestamp('us'{zone}))"],
    ),
    ("date", [date(2026, 1, 5)], ["column.cast(pa.timestamp('us'))", "pd.to_datetime(df['x'])", "pl.col('x').cast(pl.Datetime('us'))"]),
    ("text", [TEXT], ["column.cast(pa.timestamp('us'{zone}))", "pd.to_datetime(df['x'])", "pl.col('x').cast(pl.String).str.to_datetime({pl_zone})"]),
    ("duration", [timedelta(days=20458)], ["pd.Timestamp('1970-01-01'{tz}) + df['x']"]),
    ("time", [time(0)], ["datetime.combine(day, time)", "pl.col('day').dt.combine(pl.col('x'))"]),
]  # fmt: skip


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(("kind", "values", "ways"), CASES, ids=[case[0] for case in CASES])
def test_every_way_out_makes_the_time(
    tmp_path: Path, kind: str, values: list[object], ways: list[str], zone: str | None
) -> None:
    said = advice(tmp_path, pa.table({"x": values}), zone)
    offset = "Z" if kind == "text" and zone else ""
    column = pa.array([f"{value}{offset}" if kind == "text" else value for value in values])
    frame = pl.DataFrame({"x": column, "day": [date(2026, 1, 5)]})
    names = {
        "column": column, "df": pd.DataFrame({"x": column.to_pandas(date_as_object=True)}), "pl": pl, "pd": pd, "pa": pa, "pc": pc,
        "datetime": datetime, "day": date(2026, 1, 5), "time": time(0),
    }  # fmt: skip
    filled = {
        "pl_zone": "" if zone is None else f"time_zone='{zone}'",
        "zone": "" if zone is None else f", '{zone}'",
        "utc": "" if zone is None else ", utc=True",
    }
    for way in ways:
        expression = way.format(**filled, tz="" if zone is None else f", tz='{zone}'")
        assert expression in said, said
        made = eval(expression, names)
        found = (
            frame.select(made).to_series()[0]
            if isinstance(made, pl.Expr)
            else made
            if kind == "time" and "day, t" in way
            else made[0]
        )
        stamp = pd.Timestamp(found.as_py() if isinstance(found, pa.Scalar) else found)
        assert stamp.tz_localize(None) == pd.Timestamp(NAIVE), expression
        if zone and kind not in ("date", "text", "time"):
            assert stamp.tzinfo is not None, expression


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_t2_29_a_pandas_period_says_how_its_start_is_taken(tmp_path: Path, zone: str | None) -> None:
    days = pd.DataFrame({"v": [1]}, index=pd.period_range("2026-01-05", periods=1, freq="D", name="x"))
    said = advice(tmp_path, days[[]], zone)
    assert "pandas.period" in said
    assert "df.index.to_timestamp()" in said
    assert "df['x'].dt.to_timestamp()" in said
    assert "unit" not in said.replace("timestamp of any unit", "")
    starts = days[[]].set_axis(days.index.to_timestamp(), axis=0)
    table = gl.create(tmp_path / "starts", index="x", bucket="1d")
    assert table.append(starts.rename_axis("x")).rows == 1
    assert table.scan().to_arrow()["x"].to_pylist() == [NAIVE]


def test_t2_29_a_column_of_periods_is_refused_by_its_name_or_kept_as_arrow_has_it(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="x", bucket="1d")
    frame = pd.DataFrame({"x": [NAIVE], "month": pd.period_range("2026-01", periods=1, freq="M")})
    with pytest.raises(UnsupportedType, match=r"dt\.to_timestamp\(\)"):
        table.append(frame)
    table.append(pa.Table.from_pandas(frame))
    assert table.scan().to_arrow()["month"].to_pylist() == [672]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([TEXT]).dictionary_encode(),
        pa.array([TEXT], pa.large_string()),
        pa.array([TEXT], pa.string_view()),
        pd.Categorical([TEXT]),
        pl.Series([TEXT], dtype=pl.Enum([TEXT])),
        pl.Series([TEXT], dtype=pl.Categorical),
    ],
    ids=["dictionary", "large", "view", "pandas categorical", "polars enum", "polars categorical"],
)
def test_t2_29_texts_in_any_encoding_are_told_how_they_are_parsed(tmp_path: Path, values: Any) -> None:
    data = pd.DataFrame({"x": values}) if isinstance(values, pd.Categorical) else {"x": values}
    assert "pd.to_datetime(df['x'])" in advice(tmp_path, data, "UTC")


@pytest.mark.parametrize(
    "values",
    [pa.array([NAIVE]).dictionary_encode(), pd.Series(pd.Categorical([pd.Timestamp(NAIVE)])), pl.Series([NAIVE])],
    ids=["dictionary", "pandas categorical", "polars"],
)
def test_t2_29_encoded_times_are_times(tmp_path: Path, values: Any) -> None:
    table = gl.create(tmp_path / "t", index="x", bucket="1d")
    table.append(pd.DataFrame({"x": values}) if isinstance(values, pd.Series) else {"x": values})
    assert table.scan().to_arrow()["x"].cast(pa.timestamp("us")).to_pylist() == [NAIVE]


def test_t2_29_an_interval_has_two_ends(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": pd.arrays.IntervalArray.from_breaks(pd.to_datetime(["2026-01-05", "2026-01-06"]))})
    assert "df['x'].array.left" in advice(tmp_path, pa.Table.from_pandas(frame), None)
    assert frame["x"].array.left[0] == pd.Timestamp(NAIVE)


@pytest.mark.parametrize("values", [[True], [b"x"], [{"a": 1}], [[1]]])
def test_t2_29_what_can_be_no_time_asks_for_another_column(tmp_path: Path, values: list[object]) -> None:
    table = gl.create(tmp_path / "new", index="x", bucket="1h")
    with pytest.raises(SchemaMismatch, match="Choose an index column that holds times"):
        table.append({"x": values})


@pytest.mark.parametrize(
    ("index_type", "values", "fix"),
    [
        ("int64", pa.array([NAIVE]), "index_type='timestamp'"),
        ("int64", pa.array([2**63], pa.uint64()), "index_type='uint64'"),
        ("uint64", pa.array([-1]), "index_type='int64'"),
        ("int64", pa.array([1.0]), "column.cast(pa.int64())"),
        ("int64", pa.array(["1"]), "column.cast(pa.int64())"),
    ],
)
def test_t2_29_an_integer_index_says_what_it_takes(tmp_path: Path, index_type: str, values: pa.Array, fix: str) -> None:
    table = gl.create(tmp_path / "new", index="x", index_type=index_type, bucket=10)
    with pytest.raises(SchemaMismatch) as caught:
        table.append({"x": values})
    assert fix in caught.value.fix
