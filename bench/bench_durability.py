"""What kill -9 and many writers do to gapless, timeseries-table-format 0.9.0 and deltalake: same machine, same run, interleaved.

1. Kills: a process appends 10 rows at a time and says each append that returned; it is killed at a random moment of an append. The
   next process sends what got no answer again, and goes on. `wedged` tables refuse that for ever; `lost` rows were acknowledged.
2. Writers: processes append disjoint rows to one table at once, without a retry of their own, as first users do; after an error they
   open the table again and go on with their next rows.

`--full` runs 60 kills each and 8 x 50 appends (default: 8 kills, 8 x 15), `--only NAME` one peer. A peer that is not installed is left out,
and said so. How each resends: gapless with an operation id; timeseries-table-format blindly, and a refusal for overlap counts as "it is
there"; deltalake blindly, and once more as `deltalake+txn` with an app transaction that the caller looks up first.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import gapless as gl

ROWS = 10


def rows_of(writer: str, number: int) -> pa.Table:
    at = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"at": pa.array(at, pa.int64()), "writer": pa.array([writer] * ROWS), "value": pa.array(at, pa.float64())})


class Gapless:
    def create(self, path: str) -> None:
        gl.create(path, index="at", index_type="int64", bucket=1, entity="writer")

    def open(self, path: str) -> Any:
        return gl.open(path)

    def append(self, table: Any, writer: str, number: int) -> None:
        table.append(rows_of(writer, number), operation_id=(writer, number))

    resend = append

    def read(self, path: str) -> pa.Table:
        return gl.open(path).scan(columns=["writer", "at"]).to_arrow()


class Ttf:
    def create(self, path: str) -> None:
        import timeseries_table_format as ttf

        ttf.TimeSeriesTable.create(
            table_root=path, index_column="at", index_type="int64", index_granularity=1, entity_columns=["writer"]
        )

    def open(self, path: str) -> Any:
        import timeseries_table_format as ttf

        return ttf.TimeSeriesTable.open(path)

    def append(self, table: Any, writer: str, number: int) -> None:
        table.append(rows_of(writer, number))

    def resend(self, table: Any, writer: str, number: int) -> None:
        import timeseries_table_format as ttf

        with contextlib.suppress(ttf.IndexIntervalOverlapError):
            self.append(table, writer, number)

    def read(self, path: str) -> pa.Table:
        import timeseries_table_format as ttf

        session = ttf.Session()
        session.register_tstable("t", path)
        return pa.table(session.sql("select writer, at from t"))


class Delta:
    def create(self, path: str) -> None:
        import deltalake

        deltalake.write_deltalake(path, rows_of("w", 0).schema.empty_table())

    def open(self, path: str) -> Any:
        import deltalake

        return deltalake.DeltaTable(path)

    def append(self, table: Any, writer: str, number: int) -> None:
        import deltalake

        deltalake.write_deltalake(table, rows_of(writer, number), mode="append")

    resend = append

    def read(self, path: str) -> pa.Table:
        return self.open(path).to_pyarrow_table(columns=["writer", "at"])


class DeltaTransactions(Delta):
    def append(self, table: Any, writer: str, number: int) -> None:
        import deltalake

        properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(writer, number)])
        deltalake.write_deltalake(table, rows_of(writer, number), mode="append", commit_properties=properties)

    def resend(self, table: Any, writer: str, number: int) -> None:
        known = table.transaction_version(writer)
        if known is None or known < number:
            self.append(table, writer, number)


PEERS: dict[str, tuple[Any, str]] = {
    "gapless": (Gapless(), "gapless"),
    "ttf 0.9.0": (Ttf(), "timeseries_table_format"),
    "deltalake": (Delta(), "deltalake"),
    "deltalake+txn": (DeltaTransactions(), "deltalake"),
}


def work(peer: Any, path: str, writer: str, start: int, count: int) -> None:
    """Append from number `start`, a line of JSON for each."""
    with tempfile.TemporaryDirectory() as warm:
        peer.create(f"{warm}/t")
        peer.append(peer.open(f"{warm}/t"), writer, 0)
    table = peer.open(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(start, start + count):
        began = time.perf_counter()
        try:
            peer.append(table, writer, number)
        except Exception as error:  # a peer may raise anything
            print(json.dumps({"number": number, "error": f"{type(error).__name__}: {error}"[:150]}), flush=True)
            table = peer.open(path)
        else:
            print(json.dumps({"number": number, "seconds": time.perf_counter() - began}), flush=True)


def start_worker(name: str, path: str, writer: str, start: int, count: int) -> subprocess.Popen[str]:
    task = json.dumps([name, path, writer, start, count])
    return subprocess.Popen(
        [sys.executable, __file__, "--work", task],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def begin(workers: list[subprocess.Popen[str]]) -> None:
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()


def answers(worker: subprocess.Popen[str]) -> list[dict[str, Any]]:
    assert worker.stdout is not None
    return [json.loads(line) for line in worker.stdout.read().splitlines(keepends=True) if line.endswith("\n")]


@dataclass
class Killed:
    """One peer's kills: a table that takes them until it is wedged, then the next one."""

    peer: Any
    folder: str
    acked: list[set[int]] = field(default_factory=list)
    kills: int = 0
    wedged: int = 0
    resent: int = 0

    def next_table(self) -> None:
        self.acked.append(set())
        self.peer.create(self.path)

    @property
    def path(self) -> str:
        return f"{self.folder}/{len(self.acked)}"


def kill_once(name: str, state: Killed, dice: random.Random) -> None:
    acked = state.acked[-1]
    worker = start_worker(name, state.path, "w", len(acked), 1_000_000)
    with worker:
        begin([worker])
        assert worker.stdout is not None
        before = [json.loads(worker.stdout.readline()) for _ in range(dice.randrange(1, 8))]
        time.sleep(dice.random() * 1.2 * before[-1].get("seconds", 0.05))
        os.kill(worker.pid, signal.SIGKILL)
        said = before + answers(worker)
    acked |= {one["number"] for one in said if "error" not in one}
    state.kills += 1
    try:
        table = state.peer.open(state.path)
        state.peer.resend(table, "w", len(acked))
    except Exception:  # a peer may raise anything
        state.wedged += 1
        state.next_table()
    else:
        state.resent += 1
        acked.add(len(acked))


def audit(peer: Any, path: str, acked: set[tuple[str, int]]) -> tuple[int, int]:
    """(acknowledged appends that are not there whole, rows that are there more than once)."""
    rows = peer.read(path)
    counts = Counter(zip(rows["writer"].to_pylist(), rows["at"].to_pylist(), strict=True))
    lost = sum(any((writer, number * ROWS + row) not in counts for row in range(ROWS)) for writer, number in acked)
    return lost, sum(count - 1 for count in counts.values())


def kills(names: list[str], rounds: int, folder: str) -> None:
    states = {name: Killed(PEERS[name][0], f"{folder}/kill {name}") for name in names}
    for state in states.values():
        Path(state.folder).mkdir()
        state.next_table()
    dice = random.Random(4)
    for _ in range(rounds):
        for name, state in states.items():
            kill_once(name, state, dice)
    print(f"\nkill -9 at a random moment of an append of {ROWS} rows, then open and send the unanswered append again")
    print(f"  {'':14}{'kills':>7}{'wedged tables':>15}{'acknowledged':>14}{'lost':>6}{'doubled rows':>14}")
    for name, state in states.items():
        found = [
            audit(state.peer, f"{state.folder}/{number}", {("w", one) for one in acked})
            for number, acked in enumerate(state.acked, 1)
        ]
        total = sum(map(len, state.acked))
        print(
            f"  {name:14}{state.kills:7}{state.wedged:15}{total:14}{sum(lost for lost, _ in found):6}{sum(two for _, two in found):14}"
        )


def writers(names: list[str], processes: int, each: int, repeats: int, folder: str) -> None:
    print(
        f"\n{processes} processes x {each} appends of {ROWS} rows to one table on disk, no retry by the caller ({repeats} interleaved runs)"
    )
    print(
        f"  {'':14}{'ok':>6}{'errors':>8}{'lost':>6}{'doubled rows':>14}{'commits/s':>11}{'p50 ms':>8}{'p99 ms':>8}  most frequent error"
    )
    total: dict[str, Counter[str]] = {name: Counter() for name in names}
    errors: dict[str, Counter[str]] = {name: Counter() for name in names}
    took: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names:
            peer, path = PEERS[name][0], f"{folder}/writers {name} {repeat}"
            peer.create(path)
            peer.append(peer.open(path), "first", 0)
            workers = [start_worker(name, path, f"w{number}", 0, each) for number in range(processes)]
            begin(workers)
            began = time.perf_counter()
            said = {f"w{number}": answers(worker) for number, worker in enumerate(workers)}
            seconds = time.perf_counter() - began
            for worker in workers:
                worker.wait()
            ok = {(writer, one["number"]) for writer, lines in said.items() for one in lines if "error" not in one}
            lost, doubled = audit(peer, path, ok)
            total[name].update({"ok": len(ok), "lost": lost, "doubled": doubled, "ms": round(seconds * 1e3)})
            took[name] += [one["seconds"] * 1e3 for lines in said.values() for one in lines if "seconds" in one]
            errors[name].update(one["error"].partition(":")[0] for lines in said.values() for one in lines if "error" in one)
    for name in names:
        sums, times = total[name], sorted(took[name]) or [0.0]
        often = errors[name].most_common(1)
        print(
            f"  {name:14}{sums['ok']:6}{errors[name].total():8}{sums['lost']:6}{sums['doubled']:14}{sums['ok'] / sums['ms'] * 1e3:11.0f}"
            f"{statistics.median(times):8.0f}{times[len(times) * 99 // 100]:8.0f}  {often[0][0] if often else '-'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="60 kills each, 8 x 50 appends, 2 runs")
    parser.add_argument("--only", choices=PEERS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        name, *task = json.loads(options.work)
        work(PEERS[name][0], *task)
        return
    names = [name for name in PEERS if options.only in (None, name)]
    for name in [name for name in names if importlib.util.find_spec(PEERS[name][1]) is None]:
        print(f"{name} is left out: {PEERS[name][1]} is not installed (pip install {PEERS[name][1].replace('_', '-')})")
        names.remove(name)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        kills(names, 60 if options.full else 8, folder)
        writers(names, 8, 50 if options.full else 15, 2 if options.full else 1, folder)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
