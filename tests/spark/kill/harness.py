"""Pipelines that are killed and restarted until their input is drained, and what must be true of their tables then."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import gapless as gl
from gapless.runtime.environment import Environment, SystemClock
from gapless.spark.checkpoint.check import check_checkpoint
from gapless.store.open import open_store
from spark.kill.killing import PLAN, Kill, kill, processes
from spark.kill.pipeline import Query
from spark.kinds import TableKind

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
START = datetime(2026, 1, 5, tzinfo=UTC)
ROWS = 12
"""Rows of one input file; files share hours, so that batches meet in buckets."""
LIFE_S = 900
"""The longest life on a crowded machine."""

Row = tuple[datetime, str, int]


class LaterClock(SystemClock):
    """Two days ahead, when nobody can be about to commit what lies there now."""

    def now_ns(self) -> int:
        """The time in nanoseconds since 1970 UTC."""
        return super().now_ns() + 2 * 86_400 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """How one life of the pipeline ended."""

    drained: bool
    struck: dict[str, object] | None
    """The kill as it happened; None where it did not."""
    seconds: float


@dataclass(slots=True)
class Pipeline:
    """Queries, each with an input that grows."""

    folder: Path
    queries: tuple[Query, ...]
    kind: TableKind
    sent: dict[str, list[list[Row]]] = field(default_factory=dict)
    """By the query's input: the rows of each of its files."""
    lives: list[Life] = field(default_factory=list)

    def make(self) -> None:
        """Make inputs and tables."""
        for query in self.queries:
            self.sent.setdefault(query.input, [])
            places = [query.table] if query.source == "files" else [query.table, query.input]
            for place in places:
                if not self.kind.lies_at(place):
                    self.kind.create_sites(place)
            if query.source == "files":
                Path(query.input).mkdir(exist_ok=True)

    def send(self, count: int) -> None:
        """Give each input some files more."""
        for number, (place, files) in enumerate(self.sent.items()):
            for at in range(len(files), len(files) + count):
                rows = [
                    (START + timedelta(minutes=7 * at * ROWS // 2 + 7 * row), f"site {number}", 1000 * at + row)
                    for row in range(ROWS)
                ]
                files.append(rows)
                self._put(place, at, rows)

    def _put(self, place: str, at: int, rows: list[Row]) -> None:
        if any(query.source == "table" and query.input == place for query in self.queries):
            ts, site, v = zip(*rows, strict=True)
            self.kind.append(place, {"ts": list(ts), "site": list(site), "v": list(v)})
            return
        path = Path(place, f"{at:04}.json")
        lines = [json.dumps({"ts": ts.isoformat(), "site": site, "v": v}) + "\n" for ts, site, v in rows]
        path.with_name(f".{path.name}").write_text("".join(lines), encoding="utf-8")
        os.utime(path.with_name(f".{path.name}"), (1_700_000_000 + at,) * 2)
        path.with_name(f".{path.name}").rename(path)

    def live(self, doom: Kill | None, dice: random.Random, queries: Sequence[Query] | None = None) -> Life:
        """Run the queries until they are drained, or killed."""
        began, note = time.monotonic(), self.folder / f"kill-{len(self.lives)}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (HERE / "site", ROOT / "src", ROOT / "tests")))}
        placed = doom is not None and doom.place != "at random"
        if placed:
            assert doom is not None
            environment[PLAN] = json.dumps(asdict(replace(doom, note=str(note), kind=self.kind.name)))
        command = [sys.executable, "-m", "spark.kill.pipeline", json.dumps([asdict(one) for one in queries or self.queries])]
        log = self.folder / f"life-{len(self.lives)}.log"
        with log.open("wb") as errors, subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as driver:  # fmt: skip
            try:
                assert driver.stdout is not None
                if doom is not None and not placed:
                    assert driver.stdout.readline() == "ready\n", log.read_text(errors="replace")[-3000:]
                    time.sleep(dice.random() * 6)
                    kill(driver.pid, doom.whom, driver.pid)
                    note.write_text(json.dumps(asdict(doom)), encoding="utf-8")
                said = driver.communicate(timeout=LIFE_S)[0]
            finally:
                _end(driver.pid)
        drained = driver.returncode == 0 and said.endswith("drained\n")
        struck = json.loads(note.read_text(encoding="utf-8")) if note.exists() else None
        assert drained or struck, f"it failed by itself: {log.read_text(errors='replace')[-3000:]}"
        self.lives.append(Life(drained=drained, struck=struck, seconds=time.monotonic() - began))
        return self.lives[-1]

    def next_batch(self, sink: str) -> int:
        """The batch after the newest that the table has of the query with this sink."""
        query = next(one for one in self.queries if one.sink == sink)
        newest = check_checkpoint(query.checkpoint, table=query.name, app_id=query.app_id).table_batch
        return 0 if newest is None else newest + 1

    def forget_newest_commits(self) -> list[Path]:
        """Remove Spark's word that the newest batch of each drained query is finished; the files that are gone."""
        gone = []
        for query in self.queries:
            report = check_checkpoint(query.checkpoint)
            assert report.newest_commit == report.newest_offset is not None, "it is not drained, so no batch would be run again"
            path = Path(query.checkpoint, "commits", str(report.newest_commit))
            path.unlink()
            # Spark could not write it again beside its old checksum.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            gone.append(path)
        return gone

    # -- what must be true ---------------------------------------------------------------------------------------------

    def check_between_lives(self) -> None:
        """Tables hold whole batches, each once, and Spark's checkpoints are sound whoever was killed."""
        for place in sorted({query.table for query in self.queries}):
            held = Counter(self.rows_of(place))
            doubled = [row for row, times in held.items() if times > 1]
            assert not doubled, f"{len(doubled)} rows are there more than once: {doubled[:3]}"
            files = [rows for query in self.queries if query.table == place for rows in self.sent[query.input]]
            torn = [rows[0] for rows in files if 0 < sum(row in held for row in rows) < len(rows)]
            assert not torn, f"batches are there in part: {torn}"
            assert not held.keys() - {row for rows in files for row in rows}
        for query in self.queries:
            report = check_checkpoint(query.checkpoint, table=query.name, app_id=query.app_id)
            assert report.ok, report.problems

    def check_drained(self) -> str:
        """Rows, sums and coverage are the input's, and vacuum takes all that no version names; a summary."""
        self.check_between_lives()
        orphans = 0
        for place in sorted({query.table for query in self.queries}):
            inputs = {query.input for query in self.queries if query.table == place}
            expected = sorted(row for one in inputs for rows in self.sent[one] for row in rows)
            assert sorted(self.rows_of(place)) == expected
            table = self.kind.open(place)
            names = [str(Path(place, path)) for path in self.kind.live(table)]
            read = duckdb.execute("SELECT count(*), sum(v) FROM read_parquet($1)", [names]).fetchone()
            assert read == (len(expected), sum(row[2] for row in expected))
            if isinstance(table, gl.TimeSeriesTable):
                covered = {(site, ts.replace(minute=0)) for ts, site, _ in expected}
                assert table.coverage().covered == len(covered)
            assert self.kind.is_whole(table)
            orphans += self._check_vacuum(place)
            assert sorted(self.rows_of(place)) == expected
        files = sum(len(self.sent[query.input]) for query in self.queries)
        kills = [life.struck for life in self.lives if life.struck]
        placed = Counter(f"{one['place']} of {one['sink'] or 'any'}, {one['whom']}" for one in kills)
        seconds = sum(life.seconds for life in self.lives)
        return (
            f"{len(kills)} kills in {len(self.lives)} lives ({seconds:.0f} s): {dict(placed)}; {files} files, {files * ROWS} rows "
            f"sent, each there once; {orphans} orphans, vacuumed"
        )

    def rows_of(self, place: str) -> list[Row]:
        """What a reader of the table sees."""
        return [(row["ts"], row["site"], row["v"]) for row in self.kind.all_rows(place)]

    def rows_in_folder(self, place: str) -> int:
        """What a reader of the folder sees who does not ask the log."""
        found = (path for path in self.kind.objects(place) if path.endswith(".parquet"))
        return sum(pq.ParquetFile(Path(place, path)).metadata.num_rows for path in found)

    def _check_vacuum(self, place: str) -> int:
        """Vacuum takes what no version names, and nothing else; how many files."""
        live, stored = self.kind.kept(place), self.kind.objects(place)
        orphans = stored - live
        taken = self.kind.vacuum(Environment(store=open_store(place), clock=LaterClock()), place)
        assert orphans == taken
        assert self.kind.objects(place) == live
        return len(orphans)


def _end(session: int) -> None:
    """Wait for what is left of a session, and end it."""
    until = time.monotonic() + 20
    while processes(session) and time.monotonic() < until:
        time.sleep(0.1)
    kill(session, "all", session)
