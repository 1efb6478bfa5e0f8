"""Whatever comes in, what a caller sees is an error of gapless: no exception of Arrow, pandas, Polars or DuckDB, no KeyError of ours."""

from __future__ import annotations

import datetime as dt
import os
import random
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from gapless.errors import GaplessError, InvalidOption, InvalidQuery, InvalidTime, UnreadableInput
from support.odd_inputs import HOUR, columns, damaged, frame, value, whole_file

FIRST, SEEDS = int(os.environ.get("GAPLESS_FUZZ_FIRST", "0")), int(os.environ.get("GAPLESS_FUZZ_SEEDS", "24"))
"""Which seeds are tried; others, and more of them, by hand."""
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("v", pa.float64()), ("w", pa.string()), ("n", pa.int64())])
Acts = dict[str, Callable[[], object]]
_WHERE = (
    "v > {}", "w = {}", "ts >= {}", "n in ({}, {})", "v = {} or w like {}", "{}", "not {}", "n + {} = 1", "upper(w) = {}", "w is null and {}", "v between {} and {}", "cast(n as int) = {}",
    "ts > timestamp {}", "date {} < ts", "n % 0 = {}", "length({}) = 1", "v = -{}", "x.y = {}", '"v" = {}', "exists (select {})",
)  # fmt: skip


def odd_text(rng: random.Random) -> str:
    odd = ["1", "'a'", "null", "1e400", "'2026-01-05'", "'9999-12-31'", "'infinity'", "10000000000000000000000", "0x", "''", "\ud800", "\0", "true", "'\ud800'", "-1", "1/0", "x'ff'", "é", "'", '"', "interval 1 day", "?", "$1", "'24:00'"]  # fmt: skip
    return rng.choice(odd)


def odd_where(rng: random.Random) -> Any:
    how = rng.random()
    if how < 0.1:
        return value(rng)
    if how < 0.25:
        field: Any = pc.field(rng.choice(["v", "w", "n", "ts", "nope"]))
        other = value(rng)
        made_of: tuple[Callable[[], Any], ...] = (
            lambda: field == other,
            lambda: field > other,
            lambda: field.isin([other]),
            lambda: pc.add(field, other) > 1,
            lambda: pc.utf8_upper(field) == "A",
        )
        try:
            return rng.choice(made_of)()
        except Exception:  # noqa: BLE001  # the expression itself cannot be made
            return field
    text = rng.choice(_WHERE)
    return text.format(*[odd_text(rng) for _ in range(text.count("{}"))])


def made(act: Callable[[random.Random], Any], rng: random.Random) -> Any:
    """An input; None where the library that makes it refuses to."""
    try:
        return act(rng)
    except BaseException:  # noqa: BLE001  # not ours; a panic is no Exception
        return None


def series_acts(table: gl.TimeSeriesTable, rng: random.Random, path: Path) -> Acts:
    """Calls of a time-series table with what the seed gives."""
    data, where, one = made(frame, rng), odd_where(rng), value(rng)
    return {
        "append": lambda: table.append(data, on_overlap="allow"),
        "upsert": lambda: table.upsert(data, key=rng.choice([None, "v", ["w", "n"]])),
        "replace": lambda: table.replace((None, None), data),
        "delete": lambda: table.delete(where),
        "scan": lambda: table.scan(where=where).to_arrow(),
        "range": lambda: table.scan(one, value(rng)).to_arrow(),
        "entity": lambda: table.scan(entity={"w": one}).to_arrow(),
        "columns": lambda: table.scan(columns=one, order=value(rng)).to_arrow(),
        "pandas": lambda: table.scan().to_pandas(),
        "polars": lambda: table.scan().to_polars(),
        "duckdb": lambda: table.scan().to_duckdb().fetchall(),
        "sql": lambda: table.sql(f"select * from this where {where}").to_arrow(),
        "at": lambda: table.at(one),
        "at time": lambda: table.at(time=one),
        "at tag": lambda: table.at(tag=one),
        "coverage": lambda: table.coverage(one, value(rng)),
        "history": lambda: table.history(one),
        "parameters": lambda: table.sql("select ? as x from this", [one]).to_arrow(),
        "a query of any type": lambda: table.sql(one).to_arrow(),
        "fill": lambda: table.fill(lambda *_: data, HOUR, HOUR + dt.timedelta(hours=3)),
        "changes": lambda: table.changes(one, columns=value(rng)).to_arrow(),
        "drop": lambda: table.drop_before(one),
        "file": lambda: table.append_file(path, on_overlap="allow"),
        "adopt": lambda: table.append_file(path, adopt="copy", on_overlap="allow"),
        "operation": lambda: table.append(columns(rng), operation_id=one, on_overlap="allow"),
        "create": lambda: gl.create(path.with_name("new"), index="ts", bucket="1h", schema=rng.choice([data, one])),
        "verify": lambda: table.verify(deep=True),
        "compact": table.compact,
    }


def delta_acts(table: gl.delta.DeltaTable, rng: random.Random, path: Path) -> Acts:
    """Calls of a Delta table with what the seed gives."""
    data, where, one = made(frame, rng), odd_where(rng), value(rng)
    return {
        "append": lambda: table.append(data),
        "evolve": lambda: table.append(data, schema_mode="merge"),
        "overwrite": lambda: table.overwrite(data, where=rng.choice([None, where])),
        "merge": lambda: table.merge(data, rng.choice(["s.ts = t.ts", f"s.v = t.v and {where}"])).when_matched_update_all().when_not_matched_insert_all().execute(),
        "merge values": lambda: table.merge(columns(rng), "s.ts = t.ts").when_matched_update({"v": odd_text(rng)}, where=odd_text(rng)).execute(),
        "update": lambda: table.update({rng.choice(["v", "w", "n", "ts"]): odd_text(rng)}, where=where),
        "update value": lambda: table.update({"n": one}),
        "delete": lambda: table.delete(where),
        "dedup": lambda: table.dedup(one),
        "scan": lambda: table.scan(where=where).to_arrow(),
        "columns": lambda: table.scan(columns=one).to_arrow(),
        "pandas": lambda: table.scan().to_pandas(),
        "polars": lambda: table.scan().to_polars(),
        "duckdb": lambda: table.scan().to_duckdb().fetchall(),
        "sql": lambda: table.sql(f"select {odd_text(rng)} as x, * from this where {where}").to_arrow(),
        "at": lambda: table.at(one),
        "at time": lambda: table.at(time=one),
        "changes": lambda: table.changes(one, columns=value(rng)).to_arrow(),
        "file": lambda: table.append_file(path),
        "operation": lambda: table.append(columns(rng), operation_id=one),
        "history": lambda: table.history(one),
        "exclude": lambda: table.scan(exclude=one).to_arrow(),
        "create": lambda: gl.delta.create(path.with_name("new"), rng.choice([data, one])),
        "verify": lambda: table.verify(deep=True),
        "compact": table.compact,
    }  # fmt: skip


def raw_errors(acts: Acts, rng: random.Random) -> Iterator[str]:
    """What no caller may see, of a few of the calls."""
    for name in rng.sample(sorted(acts), 5):
        try:
            acts[name]()
        except GaplessError as error:
            str(error).encode()
        except BaseException as error:  # noqa: BLE001  # a panic is no Exception
            yield f"{name}: {type(error).__module__}.{type(error).__name__}: {error}"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
@pytest.mark.parametrize("kind", ["series", "delta"])
def test_only_errors_of_gapless_come_of_odd_inputs(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{kind} {seed}")
    suffix = rng.choice(["csv", "jsonl", "parquet"])
    path = tmp_path / f"given.{suffix}"
    whole = whole_file(suffix, rng)
    path.write_bytes(damaged(whole, rng) if rng.random() < 0.9 else whole)
    rows = {"ts": [HOUR], "v": [1.5], "w": ["a"], "n": [1]}
    acts: Acts
    if kind == "series":
        series = gl.create(tmp_path / "t", index="ts", bucket="1h", schema=SCHEMA)
        series.append(rows)
        acts = series_acts(series, rng, path)
    else:
        delta = gl.delta.create(tmp_path / "t", SCHEMA, properties={"delta.enableChangeDataFeed": "true"})
        delta.append(rows)
        acts = delta_acts(delta, rng, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(raw_errors(acts, rng)) == []


def series_of(path: Path) -> gl.TimeSeriesTable:
    table = gl.create(path, index="ts", bucket="1h", schema=SCHEMA)
    table.append({"ts": [HOUR], "v": [1.5], "w": ["a"], "n": [1]})
    return table


@pytest.mark.parametrize(
    "odd",
    [Decimal("sNaN"), np.array([1, 2]), pl.Series([1, 2]), pd.Series([1, 2]), pl.DataFrame({"a": [1]}), object()],
    ids=map(str, range(6)),
)
def test_times_and_versions_of_any_type(odd: Any, tmp_path: Path) -> None:
    table = series_of(tmp_path / "t")
    for act in (
        lambda: table.at(odd),
        lambda: table.at(time=odd),
        lambda: table.changes(odd),
        lambda: table.history(odd),
        lambda: table.coverage(odd),
        lambda: table.scan(start=odd),
        lambda: table.drop_before(odd),
        lambda: table.scan(order=odd),
    ):
        with pytest.raises((InvalidOption, InvalidTime)):
            act()


def test_whole_numbers_of_other_libraries_are_versions(tmp_path: Path) -> None:
    table = series_of(tmp_path / "t")
    assert table.at(np.int64(1)).version == 1  # type: ignore[arg-type]  # it counts as one
    assert len(table.history(np.uint8(1))) == 1  # type: ignore[arg-type]  # it counts as one


@pytest.mark.parametrize("query", [5, None, b"select 1", "select '\ud800'", pl.Series(["a"])], ids=map(str, range(5)))
def test_queries_of_any_type(query: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery) as caught:
        series_of(tmp_path / "t").sql(query)
    str(caught.value).encode()


@pytest.mark.parametrize(
    "schema",
    [{"a": "int"}, ["a"], 5, pl.Schema({"a": pl.Int64()}), pa.int64(), pd.DataFrame({"a": [1]})],
    ids=map(str, range(6)),
)
def test_a_schema_is_one_of_arrow(schema: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="schema is of type"):
        gl.delta.create(tmp_path / "d", schema)
    with pytest.raises(InvalidOption, match="schema is of type"):
        gl.create(tmp_path / "t", index="ts", bucket="1h", schema=schema)
    assert not (tmp_path / "d" / "_delta_log").exists()
    assert gl.delta.create(tmp_path / "e", list(SCHEMA)).schema == SCHEMA


@pytest.mark.parametrize("keys", [np.float16(1), [5], {"v": 1}, b"v", ["v", "v"]], ids=map(str, range(5)))
def test_keys_of_a_dedup_are_names(keys: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "d", SCHEMA)
    with pytest.raises(InvalidOption) as caught:
        table.dedup(keys)
    assert caught.value.option == "keys"


@pytest.mark.parametrize(
    "other", [np.float32(0.1), np.complex64(1), np.uint64(2**63), np.timedelta64(1, "s"), np.str_("a")], ids=map(str, range(5))
)
def test_times_of_numpy_beside_other_values_do_not_end_the_process(other: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "d", pa.schema([("v", pa.timestamp("us"))]))
    for time in (np.datetime64("NaT"), np.datetime64("2026-01-05")):
        for data in ({"v": [time, other]}, [{"v": other}, {"v": None}, {"v": time}]):
            with pytest.raises(UnreadableInput, match="numpy"):
                table.append(data)
