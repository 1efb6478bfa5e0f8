"""The contest of bench/bench_peers.py: its questions have one answer, whoever is asked, and its synthetic metadata are true."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap64

BENCH = Path(__file__).resolve().parents[2] / "bench"
HERE = ("arrow", "ours", "ours_fastest", "ours_inlined", "duck", "ttf")
"""Those of the contenders that the developers' environment has."""


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("contest", "peers")]:
        del sys.modules[name]


def module(name: str) -> Any:
    return importlib.import_module(name)


def ask(contender: str, shape: Any, place: Path) -> dict[str, Any]:
    """What a contender answers to each question, after two appends and an update."""
    digest = module("contest.answers").digest
    engine = module(f"peers.{contender}").CONTENDER()
    engine.create(place)
    for part in shape.parts(2):
        engine.append(engine.stage(part))
    engine.open(place)
    found = {name: digest(engine.as_arrow(getattr(engine, name)())) for name in ("by_hour", "gaps")}
    found |= {"day": digest(engine.as_arrow(engine.day(*shape.day(1)))), "totals": list(engine.totals())}
    engine.update(shape.one(3))
    engine.open(place)
    found["updated"] = digest(engine.as_arrow(engine.day(*day_of(shape.one(3)))))
    engine.close()
    return found


def day_of(row: pa.Table) -> tuple[str, int, int]:
    start = row["ts"][0].value // 86_400_000_000 * 86_400_000_000
    return row["symbol"][0].as_py(), start, start + 86_400_000_000


def test_every_contender_answers_alike(tmp_path: Path) -> None:
    agree = module("contest.answers").agree
    shape = module("contest.workload").make("metrics", 20_000)
    answers = {name: ask(name, shape, tmp_path / f"{name}_metrics") for name in HERE}
    first = answers["arrow"]
    assert first["day"]["rows"] > 100
    assert first["gaps"]["rows"] > 5
    for name, found in answers.items():
        assert {question: agree(found[question], first[question]) for question in first} == dict.fromkeys(first, True), name


@pytest.mark.parametrize("name", ["metrics", "ticks", "devices"])
def test_a_shape_is_seeded_and_arrives_in_order_of_time(name: str) -> None:
    make = module("contest.workload").make
    rows = make(name, 30_000).rows
    assert rows.equals(make(name, 30_000).rows)
    assert rows.num_rows == 30_000
    assert pc.all(pc.less_equal(rows["ts"][:-1], rows["ts"][1:])).as_py()


def test_two_answers_agree_in_any_order_and_unit_and_not_with_another_value() -> None:
    answers = module("contest.answers")
    one = pa.table({"symbol": ["a", "b"], "at": pa.array([1_000, 2_000], pa.timestamp("us")), "mean": [0.1, 0.2]})
    other = pa.table(
        {"mean": [0.2, 0.1], "at": pa.array([2, 1], pa.timestamp("ms")), "symbol": pa.array(["b", "a"], pa.large_string())}
    )
    assert answers.agree(answers.digest(one), answers.digest(other))
    moved = other.set_column(0, "mean", pa.array([0.2, 0.1001]))
    late = other.set_column(1, "at", pa.array([3, 1], pa.timestamp("ms")))
    for wrong in (moved, late, other.slice(1)):
        assert not answers.agree(answers.digest(one), answers.digest(wrong))


@pytest.mark.parametrize("contender", ["ours", "ttf"])
def test_synthetic_metadata_open_and_are_pruned_to_the_one_segment(contender: str, tmp_path: Path) -> None:
    engine = module(f"peers.{contender}").CONTENDER()
    engine.synthesize(tmp_path / "segments2000", 2_000)
    engine.open(tmp_path / "segments2000")
    (piece,) = [piece for piece in module("contest.synthetic").pieces(2_000) if (piece.symbol, piece.day) == ("host7", 40)]
    found = engine.prune("host7", piece.first_us, piece.first_us + 86_400_000_000)
    assert [path.rpartition("/")[2] for path in found] == ["host7-40.parquet"]


def test_synthetic_coverage_is_that_of_a_day_of_minutes() -> None:
    synthetic = module("contest.synthetic")
    for day in range(synthetic.DAYS):
        first = (1 << 63) ^ (synthetic.Piece(symbol="a", day=day).first_us // 60_000_000)
        assert BitMap64.deserialize(synthetic._buckets(day)) == BitMap64(range(first, first + 1_440))


def entry(*seconds: float, answers: tuple[object, ...] = ()) -> Any:
    """A contender's turns from round 0 on."""
    given = answers or (True,) * len(seconds)
    pairs = enumerate(zip(seconds, given, strict=True))
    return module("contest.rounds").Entry(turns={number: {"seconds": took, "answer": said} for number, (took, said) in pairs})


@pytest.mark.parametrize(("rate", "expected"), [(True, [0.5, 0.25]), (False, [2.0, 4.0])])
def test_ratios_are_to_the_floor_of_the_same_round_without_the_first(rate: bool, expected: list[float]) -> None:
    case = module("contest.case").Case(act="day", title="", rate=rate)
    played = {"pyarrow": entry(9.0, 1.0, 2.0), "other": entry(1.0, 2.0, 8.0)}
    assert list(module("contest.rounds").ratios(case, played, "other")) == expected


def test_a_slow_first_turn_counts_and_so_does_an_only_one() -> None:
    case = module("contest.case").Case(act="day", title="", rate=False)
    played = {"pyarrow": entry(2.0, 1.0), "slow": entry(20.0, 30.0), "once": entry(4.0)}
    ratios = module("contest.rounds").ratios
    assert list(ratios(case, played, "slow")) == [10.0, 30.0]
    assert list(ratios(case, played, "once")) == [2.0]


def test_an_answer_that_most_do_not_give_or_that_is_false_is_marked() -> None:
    disagreeing = module("contest.rounds").disagreeing
    played = {name: entry(1.0, answers=(said,)) for name, said in {"a": 1, "b": 1, "c": 2}.items()}
    assert disagreeing(played) == {"c"}
    assert disagreeing({name: entry(1.0, answers=(False,)) for name in "ab"}) == {"a", "b"}
