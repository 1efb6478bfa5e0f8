"""Documents: gapless beside a server of MongoDB's protocol, mongomock and montydb, interleaved; told as ratios of a round. Not part of `make bench`.

    python bench/documents.py [--documents 1000000] [--rounds 5] [--only TEXT] [--without SIDE] [--json build/bench/documents.json]

Each side holds the same documents with the same indexes (montydb has none). In each round every side does the case once, the order drawn; a
turn does it again and again with other values for a tenth of a second, or once, and its time is the mean. A ratio is our time divided by the
side's in the same round: below 1 we are faster. Answers are compared. What the sides leave on disk differs: each change of ours is synced
before it counts; SecantusDB (a process of its own, from `make interop`) leaves its log to the page cache; mongomock and montydb keep
documents in this process's memory, and are installed into build/bench/documents. Goal: a find in no more time than the quickest.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pymongo import MongoClient

import gapless as gl

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "build" / "bench" / "documents"
PINNED = ("mongomock==4.3.0", "montydb==2.5.6", "sentinels==1.1.1", "pytz==2026.6", "packaging==26.4")
SERVER = ROOT / "build" / "interop" / "secantusdb-0.7.0b3" / "bin"
BATCH, INSERTED, OF_ONE = 100_000, 100_000, 100
TURN_S, LONG_S = 0.1, 1.0
"""A turn takes as long, and is done but once where that takes longer."""
OURS = "gapless"
Documents = list[dict[str, Any]]


def documents(first: int, last: int, total: int) -> Documents:
    """Orders: `u` is of one each and spread over all, `k` is of a hundred each, `day` rises."""
    return [
        {
            "_id": at,
            "u": at * 7919 % total,
            "k": at % max(1, total // OF_ONE),
            "day": at * 365 // total,
            "name": f"customer {at % 977}",
            "total": at * 0.5,
            "items": [{"sku": f"s{at % 311}", "n": at % 7}],
        }
        for at in range(first, last)
    ]


@dataclass(frozen=True)
class Side:
    """One contender: what makes a collection of a name."""

    name: str
    made: Callable[[str], Any]
    aggregates: bool = True


@contextmanager
def served(folder: Path) -> Iterator[MongoClient[Any]]:
    """A client of SecantusDB in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [SERVER / "python", SERVER / "secantusd-py", "--host", "127.0.0.1", "--port", port, "--storage-path", folder]
    with (
        (folder.parent / "server.log").open("wb") as log,
        subprocess.Popen([*map(str, command), "--log-level", "WARNING"], stdout=log, stderr=log) as server,
    ):
        try:
            with MongoClient[Any](f"mongodb://127.0.0.1:{port}/?directConnection=true") as client:
                client.admin.command("ping")
                yield client
        finally:
            server.kill()


def sides(folder: Path, without: list[str], stack: ExitStack) -> list[Side]:
    """Those that are there; who is missing is said."""
    vectors = {"delta.enableDeletionVectors": True}
    found = [
        Side(OURS, lambda name: gl.documents.collection(folder / name)),
        Side(f"{OURS}, deletion vectors", lambda name: gl.documents.collection(folder / f"{name}-dv", properties=vectors)),
    ]
    if (SERVER / "secantusd-py").exists() and "SecantusDB" not in without:
        client = stack.enter_context(served(folder / "server"))
        found.append(Side("SecantusDB 0.7.0b3", lambda name: client.bench[name]))
    if not PEERS.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PEERS), *PINNED]
        subprocess.run(install, check=False)
    sys.path.append(str(PEERS))
    try:
        if "mongomock" not in without:
            import mongomock

            mock = mongomock.MongoClient().bench
            found.append(Side("mongomock 4.3.0", lambda name: mock[name]))
        if "montydb" not in without:
            import montydb

            monty = montydb.MontyClient(":memory:").bench
            found.append(Side("montydb 2.5.6", lambda name: monty[name], aggregates=False))
    except ImportError as error:
        print(f"not there: {error}", flush=True)
    return [one for one in found if one.name not in without]


@dataclass(frozen=True)
class Case:
    """What is done to a collection with a number that is another each time; its answer is the same from each side."""

    name: str
    act: Callable[[Any, int], Any]
    goal: float | None = None
    aggregates: bool = False


def cases(total: int) -> list[Case]:
    """All of them."""
    by_k = [{"$group": {"_id": "$day", "n": {"$sum": 1}, "u": {"$sum": "$u"}}}, {"$sort": {"_id": 1}}, {"$limit": 5}]
    days = [{"$match": {"k": {"$lt": 500}}}, *by_k]
    numbers = count()

    def updated(made: Any, at: int) -> Any:
        return made.update_one({"_id": at * 31_337 % total}, {"$set": {"seen": next(numbers)}}).modified_count

    return [
        Case(
            "find one by an indexed field, which is spread over all", lambda made, at: list(made.find({"u": at % total})), 1.0
        ),
        Case("find one by _id", lambda made, at: made.find_one({"_id": at * 31_337 % total}), 1.0),
        Case(
            f"find {OF_ONE} by an indexed field, spread over all",
            lambda made, at: sorted(one["_id"] for one in made.find({"k": at % (total // OF_ONE)})),
            1.0,
        ),
        Case("find a day of 365, which rises", lambda made, at: sum(1 for _ in made.find({"day": at % 365})), 1.0),
        Case(
            "count by two indexed fields", lambda made, at: made.count_documents({"day": {"$gte": 180}, "k": {"$lt": at % 999}})
        ),
        Case("group by an indexed field, half of all", lambda made, _: list(made.aggregate(days)), aggregates=True),
        Case("update one by _id", updated),
    ]


def turn(act: Callable[[int], Any], dice: random.Random) -> float:
    """The mean time of a few."""
    begun = time.perf_counter()
    for done in count(1):
        act(dice.randrange(1 << 30))
        taken = time.perf_counter() - begun
        if taken > TURN_S:
            return taken / done
    raise AssertionError


def inserted(side: Side, number: int, total: int) -> float:
    """What it takes to put documents into a new collection."""
    fresh = documents(0, INSERTED, total)
    made = side.made(f"inserted-{number}")
    begun = time.perf_counter()
    made.insert_many(fresh)
    return time.perf_counter() - begun


def filled(side: Side, total: int) -> Any:
    """A collection with all documents and the indexes."""
    made = side.made("orders")
    begun = time.perf_counter()
    if side.name != "montydb 2.5.6":
        for path in ("u", "k", "day"):
            made.create_index(path)
    for first in range(0, total, BATCH):
        made.insert_many(documents(first, min(total, first + BATCH), total))
    print(f"{side.name}: {total:,} documents in {time.perf_counter() - begun:.1f} s", flush=True)
    return made


def told(name: str, times: dict[str, list[float]], goal: float | None) -> str:
    """A case as a row of a table."""
    ours = times[OURS]
    cells = [f"{statistics.median(ours) * 1e3:,.2f}"]
    ratios: dict[str, float] = {}
    for side, theirs in times.items():
        if side != OURS:
            of_side = [mine / other for mine, other in zip(ours, theirs, strict=True)] if theirs else []
            ratios[side] = statistics.median(of_side) if of_side else 0.0
            cells.append(f"{statistics.median(theirs) * 1e3:,.2f} ({ratios[side]:.3g})" if of_side else "-")
    peers = [ratio for side, ratio in ratios.items() if ratio and not side.startswith(OURS)]
    verdict = "" if goal is None or not peers else "yes" if max(peers) <= goal else "**no**"
    return f"| {name} | {' | '.join(cells)} | {'' if goal is None else goal} | {verdict} |"


def main() -> None:
    """Everything that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="cases whose name has this in it")
    parser.add_argument("--without", action="append", default=[], help="a side that is left out")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "documents.json")
    chosen = parser.parse_args()
    folder, dice = Path(tempfile.mkdtemp(prefix="documents-")), random.Random(7)
    results: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        there = sides(folder, chosen.without, stack)
        wanted = [one for one in cases(chosen.documents) if not chosen.only or any(text in one.name for text in chosen.only)]
        made = {side.name: filled(side, chosen.documents) for side in there} if wanted else {}
        print(f"| ms (x our time by theirs) | {' | '.join(side.name for side in there)} | goal | holds |")
        print("|---" * (len(there) + 3) + "|", flush=True)
        if not chosen.only or any(text in "insert_many" for text in chosen.only):
            times: dict[str, list[float]] = {side.name: [] for side in there}
            for number in range(chosen.rounds):
                for side in dice.sample(there, len(there)):
                    times[side.name].append(inserted(side, number, chosen.documents))
            results["insert_many of 100,000"] = times
            print(told("insert_many of 100,000", times, None), flush=True)
        for case in wanted:
            able = [side for side in there if side.aggregates or not case.aggregates]
            times = {side.name: [] for side in there}
            for number in range(chosen.rounds + 1):
                seed, answers = dice.randrange(1 << 30), {}
                for side in dice.sample(able, len(able)):
                    act = case.act
                    # A first answer is asked of all with the same number, and compared.
                    begun = time.perf_counter()
                    answers[side.name] = act(made[side.name], seed)
                    seconds = time.perf_counter() - begun
                    if seconds < LONG_S:
                        seconds = turn(lambda at, side=side, act=act: act(made[side.name], at), random.Random(seed))
                    if number:
                        times[side.name].append(seconds)
                if any(answer != answers[OURS] and not case.name.startswith("update") for answer in answers.values()):
                    print(f"answers differ: {case.name}: {str(answers)[:500]}", flush=True)
            results[case.name] = times
            print(told(case.name, times, case.goal), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps({"documents": chosen.documents, "seconds": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
