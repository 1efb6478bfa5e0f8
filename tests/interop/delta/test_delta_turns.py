"""Several makes of writers take turns on one table, and everyone reads the same after it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gapless as gl
from interop.delta.engines import Ask, counted
from interop.delta.turns import KINDS, Game, Turn, remove_paths_match

PLAYERS = ("gapless", "gapless", "deltalake-1.6.6", "deltalake-1.6.3", "deltalake-1.3.3")
CHECKERS = ("deltalake-1.6.6", "duckdb-1.5.5", "polars")
_FEW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def turns(players: tuple[str, ...], most: int) -> st.SearchStrategy[list[Turn]]:
    """What is played."""
    return st.lists(st.tuples(st.sampled_from(players), st.sampled_from(KINDS), st.integers(0, 40)), min_size=1, max_size=most)


def _game(factory: pytest.TempPathFactory, engine: Ask, *, partitioned: bool) -> Game:
    return Game(path=str(factory.mktemp("turns") / "table"), ask=engine, partitioned=partitioned)


_NULL_IN_REQUIRED = "ignore:.*Struct child array #1 has length smaller than expected for struct array:gapless.errors.LogWarning"
"""deltalake 1.3.3 says in its checkpoints that no partition value of a tombstone is null, and writes nulls: its commits serve instead."""


@pytest.mark.filterwarnings(_NULL_IN_REQUIRED)
@settings(_FEW, max_examples=25)
@given(first=st.sampled_from(PLAYERS), played=turns(PLAYERS, 6), partitioned=st.booleans())
def test_turn_by_turn_with_deltalake(
    tmp_path_factory: pytest.TempPathFactory, engine: Ask, first: str, played: list[Turn], partitioned: bool
) -> None:
    game = _game(tmp_path_factory, engine, partitioned=partitioned)
    game.begin(first)
    for turn in played:
        game.play(turn)
        game.check(CHECKERS)


@pytest.mark.long
@settings(_FEW, max_examples=4)
@given(first=st.sampled_from(["gapless", "spark"]), played=turns(("gapless", "spark"), 4), partitioned=st.booleans())
def test_turn_by_turn_with_spark(
    tmp_path_factory: pytest.TempPathFactory, engine: Ask, first: str, played: list[Turn], partitioned: bool
) -> None:
    game = _game(tmp_path_factory, engine, partitioned=partitioned)
    game.begin(first)
    for turn in played:
        game.play(turn)
    game.check((*CHECKERS, "spark"))
    assert remove_paths_match(game.path)


SPARKS_PLACES = Path(__file__).resolve().parents[2] / "fixtures" / "delta" / "spark_partition_texts" / "table"
"""A table that delta-spark wrote, with partition values that paths must not lose."""


def test_we_remove_what_spark_added_byte_for_byte(tmp_path: Path, engine: Ask) -> None:
    """Every file is rewritten, and none stays beside what took its place."""
    path = str(tmp_path / "table")
    shutil.copytree(SPARKS_PLACES, path)
    table = gl.delta.open(path)
    before = table.scan().to_arrow().to_pylist()
    table.update({"n": "n + 100"}, where="true")
    table.compact()
    wanted = counted([{"p": row["p"], "n": row["n"] + 100} for row in before])
    assert remove_paths_match(path)
    for reader in CHECKERS:
        assert counted(engine(reader).read(path)) == wanted, reader


def test_deltalake_still_doubles_rows_of_such_a_table(tmp_path: Path, engine: Ask) -> None:
    """deltalake 1.6.6 encodes the paths anew in `remove`, and other readers see both files: why we repeat the text itself.

    We compare paths by what they name, so we read such a table as its writer meant it.
    """
    path = str(tmp_path / "table")
    shutil.copytree(SPARKS_PLACES, path)
    count = len(gl.delta.open(path).scan().to_arrow())
    engine("deltalake-1.6.6").do("update", path=path, values={"n": "n + 100"}, where="true")
    assert not remove_paths_match(path)
    assert len(engine("duckdb-1.5.5").read(path)) > count
    assert gl.delta.open(path).count() == count
