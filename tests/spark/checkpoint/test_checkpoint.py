"""Checkpoint folders that Spark made, broken as in the field: what is found, and that the repair as worded loses and doubles nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import UnreadableInput
from gapless.spark.checkpoint.check import check_checkpoint
from gapless.spark.checkpoint.findings import CheckpointFinding, CheckpointReport
from gapless.spark.stream.batch_writer import batch_writer

# Spark's own, which are closed when they are collected.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

FILES = 12
STOPS = 10
"""The batch that its sink refuses: planned, never finished."""


def rows_of(number: int) -> list[dict[str, int]]:
    return [{"n": 10 * number + row, "v": row * row - number} for row in range(5)]


ALL = sorted((row["n"], row["v"]) for number in range(FILES) for row in rows_of(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A query: its input, its checkpoint and its table."""

    source: Path
    checkpoint: Path
    table: Path

    def path(self, name: str) -> Path:
        return self.checkpoint / name

    def check(self, *, ask: bool = False, **options: Any) -> CheckpointReport:
        return check_checkpoint(self.checkpoint, table=self.table if ask else None, **options)

    def rows(self) -> list[tuple[int, int]]:
        """What the table holds, read by DuckDB."""
        files = [info.path for info in gl.open(self.table).segments()]
        return duckdb.execute(
            "SELECT n, v FROM read_parquet($1) ORDER BY ALL", [[str(self.table / one) for one in files]]
        ).fetchall()

    def remove(self, *names: str) -> None:
        """Files with their checksums."""
        for name in names:
            path = self.path(name)
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def cut(self, name: str, length: int) -> None:
        os.truncate(self.path(name), length)


def run(spark: Any, query: Folder, sink: Callable[[Any, int], object] | None = None) -> list[int]:
    """Run the query until its source is drained; the numbers of the batches that came."""
    seen: list[int] = []
    write = sink or batch_writer(str(query.table))

    def deliver(frame: Any, batch: int) -> None:
        seen.append(batch)
        write(frame, batch)

    stream = spark.readStream.schema("n long, v long").option("maxFilesPerTrigger", 1).json(str(query.source))
    started = (
        stream.writeStream.foreachBatch(deliver)
        .option("checkpointLocation", str(query.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    started.awaitTermination()
    return seen


@pytest.fixture(scope="module")
def stopped(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A query whose batch STOPS was planned and did not reach the table."""
    from pyspark.errors import StreamingQueryException

    root = tmp_path_factory.mktemp("stopped")
    query = Folder(source=root / "in", checkpoint=root / "checkpoint", table=root / "table")
    query.source.mkdir()
    for number in range(FILES):
        path = query.source / f"{number:03}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(number)), encoding="utf-8")
        os.utime(path, (1_000_000_000 + number,) * 2)
    gl.create(query.table, index="n", index_type="int64", bucket=100)
    write = batch_writer(str(query.table))

    def refuse_one(frame: Any, batch: int) -> None:
        if batch == STOPS:
            raise RuntimeError("the sink is down")
        write(frame, batch)

    with pytest.raises(StreamingQueryException, match="the sink is down"):
        run(spark, query, refuse_one)
    assert query.rows() == [row for row in ALL if row[0] < 10 * STOPS]
    return query


@pytest.fixture
def query(stopped: Folder, tmp_path: Path) -> Folder:
    """A copy of it, to be broken."""
    shutil.copytree(stopped.checkpoint, tmp_path / "checkpoint")
    shutil.copytree(stopped.table, tmp_path / "table")
    return replace(stopped, checkpoint=tmp_path / "checkpoint", table=tmp_path / "table")


def between(query: Folder) -> None:
    """As if the query had been ended between two batches."""
    query.remove(f"offsets/{STOPS}")


def with_batch_in_table(query: Folder) -> None:
    """As if it had been killed after the table's commit."""
    rows = pa.Table.from_pylist(rows_of(STOPS))
    app = query.check().query
    assert app is not None
    gl.open(query.table).append(rows, on_overlap="allow", operation_id=(app, STOPS))


def obey(query: Folder, repair: str) -> None:
    """Do what a repair says, to the letter."""
    done = False
    for copied, place in re.findall(r"[Cc]opy (\S+) to (\S+?)(?:[:,]| and )", repair):
        shutil.copy(query.path(copied), query.path(place))
        done = True
    for lines, place in re.findall(r"[Ww]rite the two lines (.*?) into (\S+?)(?:[:,]| and )", repair):
        query.path(place).write_text(lines.replace(" and ", "\n"), encoding="utf-8")
        done = True
    for line, place in re.findall(r"[Ww]rite (\{.*?\}) into (\S+?)(?:[:,]| and )", repair):
        query.path(place).write_text(line, encoding="utf-8")
        done = True
    for paths in re.findall(r"[Rr]emove ([^\s:;]+(?: and [^\s:;]+)*)", repair):
        for name in paths.split(" and "):
            query.path(name).unlink()
        done = True
    assert done, repair


def only(report: CheckpointReport) -> CheckpointFinding:
    (problem,) = report.problems
    return problem


# -- sound folders -----------------------------------------------------------------------------------------------------


def test_what_spark_leaves_is_sound(query: Folder) -> None:
    for ask in (False, True):
        report = query.check(ask=ask)
        assert report.ok
        assert report.findings == ()
        assert (report.newest_offset, report.newest_commit) == (STOPS, STOPS - 1)
        assert report.table_batch == (STOPS - 1 if ask else None)
    assert report.query == json.loads(query.path("metadata").read_text(encoding="utf-8"))["id"]
    report.require_ok()
    between(query)
    assert query.check(ask=True).findings == ()
    with_batch_in_table(query)
    assert only(query.check(ask=True)).code == "table-ahead"


def test_a_batch_that_is_in_the_table_alone_is_sound(query: Folder) -> None:
    with_batch_in_table(query)
    report = query.check(ask=True)
    assert (report.findings, report.table_batch) == ((), STOPS)


def test_nothing_is_there(tmp_path: Path) -> None:
    report = check_checkpoint(tmp_path / "none")
    assert report.ok
    assert [note.code for note in report.notes] == ["nothing-there"]
    assert (report.query, report.newest_offset, report.newest_commit) == (None, None, None)


def test_a_bucket_or_memory_is_looked_at_too() -> None:
    assert [note.code for note in check_checkpoint("memory://checkpoint").notes] == ["nothing-there"]


def test_no_pyspark_is_loaded() -> None:
    code = "import sys, gapless.spark.checkpoint.check; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- broken folders: what is found -------------------------------------------------------------------------------------

N = STOPS
Break = Callable[[Folder], object]


def empty(name: str) -> Break:
    return lambda query: query.cut(name, 0)


def torn(name: str, length: int = 30) -> Break:
    return lambda query: query.cut(name, length)


def gone(*names: str) -> Break:
    return lambda query: query.remove(*names)


def both(*breaks: Break) -> Break:
    return lambda query: [one(query) for one in breaks]


def copied(name: str, to: str) -> Break:
    return lambda query: shutil.copy(query.path(name), query.path(to))


PROBLEMS: dict[str, tuple[Break, list[tuple[str, str]], str]] = {
    "offset torn": (torn(f"offsets/{N}"), [("offset-damaged", f"offsets/{N}")], f"If the sink has no batch after {N - 1}, remove offsets/{N}"),
    "offset empty": (empty(f"offsets/{N}"), [("offset-damaged", f"offsets/{N}")], f"remove offsets/{N} and offsets/.{N}.crc"),
    "offset without sources": (
        lambda query: query.path(f"offsets/{N}").write_text("v1\n{}", encoding="utf-8"), [("offset-damaged", f"offsets/{N}")], "remove",
    ),
    "finished offset torn": (
        both(gone(f"offsets/{N}"), torn(f"offsets/{N - 1}")), [("offset-damaged", f"offsets/{N - 1}")], f"Put offsets/{N - 1} back",
    ),
    "start of the last batch torn": (
        torn(f"offsets/{N - 1}"), [("offset-damaged", f"offsets/{N - 1}")], f"Put offsets/{N - 1} to offsets/{N} back",
    ),
    "offset before a finished one": (
        both(gone(f"offsets/{N}"), gone(f"offsets/{N - 2}")), [("offset-missing", f"offsets/{N - 2}")], f"Copy offsets/{N - 1} to",
    ),
    "commit without offset": (
        copied("commits/1", f"commits/{N + 1}"), [("commit-without-offset", f"commits/{N + 1}")], f"no batch after {N}, remove commits/{N + 1};",
    ),
    "no offsets": (
        gone(*(f"offsets/{number}" for number in range(N + 1))),
        [("commit-without-offset", f"commits/{N - 1}")], f"Put offsets/0 to offsets/{N - 1} back",
    ),
    "commits two behind": (gone(f"commits/{N - 1}"), [("commit-missing", f"commits/{N - 1}")], f"If the sink has batch {N - 1}"),
    "no commits": (gone(*(f"commits/{number}" for number in range(N))), [("commit-missing", f"commits/{N - 1}")], "if it has no batch, remove offsets/1 and"),
    "commit of the newest torn": (
        both(gone(f"offsets/{N}"), torn(f"commits/{N - 1}", 5)), [("commit-damaged", f"commits/{N - 1}")], f"Remove commits/{N - 1} and",
    ),
    "commit before the newest torn": (torn(f"commits/{N - 1}", 5), [("commit-damaged", f"commits/{N - 1}")], "Write the two lines v1"),
    "commit torn, and two behind": (
        both(gone(f"commits/{N - 1}"), torn(f"commits/{N - 2}", 5)), [("commit-missing", f"commits/{N - 1}")], f"If the sink has batch {N - 1}",
    ),
    "commit torn, without offset": (
        both(copied("commits/1", f"commits/{N + 1}"), torn(f"commits/{N + 1}", 5)),
        [("commit-without-offset", f"commits/{N + 1}")], f"no batch after {N}, remove commits/{N + 1};",
    ),
    "offset with fewer sources": (
        lambda query: query.path(f"offsets/{N - 1}").write_text(query.path(f"offsets/{N - 1}").read_text() + "\n-", encoding="utf-8"),
        [("offset-damaged", f"offsets/{N}")], f"remove offsets/{N} and",
    ),
    "metadata torn": (torn("metadata", 20), [("metadata-damaged", "metadata")], "Put it back from a copy, or write"),
    "metadata empty": (empty("metadata"), [("metadata-damaged", "metadata")], "Put it back from a copy, or write"),
    "metadata gone": (gone("metadata"), [("metadata-missing", "metadata")], "Put it back from a copy, or write"),
    "source file torn": (torn(f"sources/0/{N}"), [("source-damaged", f"sources/0/{N}")], f"If the sink has no batch {N}, remove sources/0/{N}"),
    "source file not planned": (
        both(gone(f"offsets/{N}"), torn(f"sources/0/{N}")), [("source-damaged", f"sources/0/{N}")], f"Remove sources/0/{N} and",
    ),
    "source file of a finished batch": (
        torn("sources/0/9.compact"), [("source-damaged", "sources/0/9.compact")], "Put it back from a copy",
    ),
    "compacted source file gone": (gone("sources/0/9.compact"), [("source-missing", "sources/0/9")], "Put it back from a copy"),
    "checksum left": (
        lambda query: query.path(f"offsets/{N}").unlink(), [("checksum-left", f"offsets/.{N}.crc")], f"Remove offsets/.{N}.crc",
    ),
    "checksum of metadata left": (
        lambda query: query.path("metadata").unlink(),
        [("metadata-missing", "metadata"), ("checksum-left", ".metadata.crc")], "and remove .metadata.crc",
    ),
    "a newer Spark": (
        lambda query: query.path(f"offsets/{N}").write_text("v9\n{}\n-", encoding="utf-8"), [("newer-spark", "")], "Start the query with the Spark",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_ss_04_what_is_broken_is_named_with_a_repair(query: Folder, name: str) -> None:
    broken, expected, repair = PROBLEMS[name]
    broken(query)
    before = {path: path.read_bytes() for path in query.checkpoint.rglob("*") if path.is_file()}
    report = query.check()
    assert not report.ok
    assert [(one.code, one.path) for one in report.problems] == expected
    assert repair in report.problems[0].repair
    assert all("beginning" not in one.repair for one in report.problems)
    assert {path: path.read_bytes() for path in query.checkpoint.rglob("*") if path.is_file()} == before
    with pytest.raises(UnreadableInput, match=re.escape(report.problems[0].repair)):
        report.require_ok()


def test_ss_04_every_cut_is_found(query: Folder) -> None:
    """Also without the checksum, which buckets do not have."""
    for name in ("metadata", f"offsets/{N}", f"commits/{N - 1}", f"sources/0/{N}"):
        path = query.path(name)
        path.with_name(f".{path.name}.crc").unlink()
        whole = path.read_bytes()
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            assert [one.path for one in query.check().problems] == [name], whole[:length]
        path.write_bytes(whole)
        assert query.check().findings == ()


def test_input_that_a_log_of_files_lost_between_lines_is_missed(query: Folder) -> None:
    path = query.path("sources/0/9.compact")
    path.write_bytes(path.read_bytes().rpartition(b"\n")[0])
    found = only(query.check())
    assert (found.code, found.path) == ("source-damaged", "sources/0/9.compact")
    assert found.repair.startswith("Put it back from a copy")


NOTES: dict[str, tuple[Break, str, str]] = {
    "old offset": (torn("offsets/3"), "offset-damaged", "offsets/3"),
    "old offset gone": (gone("offsets/3"), "offset-missing", "offsets/3"),
    "old commit": (torn("commits/3", 2), "commit-damaged", "commits/3"),
    "old commit gone": (gone("commits/3"), "commit-missing", "commits/3"),
    "old source file": (torn("sources/0/3"), "source-damaged", "sources/0/3"),
    "unfinished": (copied("offsets/3", f"offsets/.{N + 1}.0a.TID3.tmp"), "unfinished", f"offsets/.{N + 1}.0a.TID3.tmp"),
    "its checksum": (
        copied("offsets/3", f"offsets/..{N + 1}.0a.TID3.tmp.crc"),
        "unfinished",
        f"offsets/..{N + 1}.0a.TID3.tmp.crc",
    ),
    "old checksum": (lambda query: query.path("commits/3").unlink(), "checksum-left", "commits/.3.crc"),
    "stranger": (copied("offsets/3", "commits/README"), "stranger", "commits/README"),
    "altered": (copied("commits/3", f"commits/.{N - 1}.crc"), "checksum-differs", f"commits/{N - 1}"),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_does_no_harm_is_noted(query: Folder, name: str) -> None:
    broken, code, path = NOTES[name]
    broken(query)
    report = query.check()
    assert report.ok
    allowed = {(code, path), ("checksum-differs", path), ("commit-missing", "commits/3")}
    assert {(one.code, one.path) for one in report.notes} <= allowed
    assert (code, path) in {(one.code, one.path) for one in report.notes}


def test_ss_04_as_in_the_field(tmp_path: Path, stopped: Folder) -> None:
    """Offsets {7, 9}, commits {6, 7}, offsets/9 and metadata cut off."""
    query = replace(stopped, checkpoint=tmp_path)
    for name in ("metadata", "offsets/7", "offsets/9", "commits/6", "commits/7"):
        query.path(name).parent.mkdir(exist_ok=True)
        shutil.copy(stopped.path(name), query.path(name))
    query.cut("offsets/9", 100)
    query.cut("metadata", 17)
    report = query.check()
    found = {one.path: one for one in report.problems}
    assert {path: one.code for path, one in found.items()} == {
        "metadata": "metadata-damaged",
        "offsets/6": "offset-missing",
        "offsets/8": "offset-missing",
        "offsets/9": "offset-damaged",
    }
    assert found["offsets/9"].repair.startswith("If the sink has no batch after 7, remove offsets/9: Spark plans batch 8 anew")
    assert found["offsets/6"].repair.startswith("Copy offsets/7 to offsets/6: batch 7 is finished")
    assert (report.query, report.newest_offset, report.newest_commit) == (None, 9, 7)
    # This sink has batches 8 and 9: to plan them anew would have them passed over with other rows.
    asked = query.check(ask=True, app_id=stopped.check().query)
    assert all(
        "Put offsets/8 to offsets/9 back" in one.repair for one in asked.problems if one.path in ("offsets/8", "offsets/9")
    )


# -- the table is asked ------------------------------------------------------------------------------------------------


def test_offsets_of_a_batch_that_the_table_has_are_not_to_be_removed(query: Folder) -> None:
    query.cut(f"offsets/{N}", 30)
    assert only(query.check(ask=True)).repair.startswith(f"Remove offsets/{N} and offsets/.{N}.crc")
    with_batch_in_table(query)
    assert "remove none: the table holds batch 10 for finished" in only(query.check(ask=True)).repair


def test_an_older_copy_of_the_folder_is_told_by_the_table(query: Folder) -> None:
    query.remove(
        *(f"{folder}/{number}" for folder in ("offsets", "commits") for number in range(N - 2, N + (folder == "offsets")))
    )
    report = query.check(ask=True)
    assert only(report).code == "table-ahead"
    assert f"as it was after batch {N - 1}" in only(report).repair
    named = query.check(ask=True, app_id="the app")
    assert named.ok
    assert [note.code for note in named.notes] == ["table-ahead"]


def test_a_table_that_was_put_back_is_told(query: Folder, tmp_path: Path) -> None:
    other = gl.create(tmp_path / "other", index="n", index_type="int64", bucket=100)
    found = only(check_checkpoint(query.checkpoint, table=other))
    assert (found.code, "no batch of" in found.what) == ("table-behind", True)
    query_id = query.check().query
    assert query_id is not None
    other.append(pa.Table.from_pylist(rows_of(3)), operation_id=(query_id, 3))
    found = only(check_checkpoint(query.checkpoint, table=tmp_path / "other"))
    assert (found.code, "batch 3 of" in found.what) == ("table-behind", True)


def test_a_table_that_is_behind_lost_commits_has_the_query_go_back(query: Folder, tmp_path: Path) -> None:
    query.remove(*(f"commits/{number}" for number in range(N - 4, N)))
    other = gl.create(tmp_path / "other", index="n", index_type="int64", bucket=100)
    query_id = query.check().query
    assert query_id is not None
    other.append(pa.Table.from_pylist(rows_of(N - 4)), operation_id=(query_id, N - 4))
    found = only(check_checkpoint(query.checkpoint, table=other))
    assert found.repair.startswith(f"Remove offsets/{N - 2} and offsets/.{N - 2}.crc and")
    assert f"Spark runs batch {N - 3} again" in found.repair


def test_commits_that_were_lost_do_no_harm_where_the_table_has_the_batches(query: Folder) -> None:
    query.remove(f"commits/{N - 1}", f"commits/{N - 2}")
    report = query.check(ask=True)
    assert report.ok
    assert [(note.code, note.path) for note in report.notes] == [("commit-missing", f"commits/{N - 1}")]


# -- repaired folders go on --------------------------------------------------------------------------------------------

REPAIRED: dict[str, tuple[Break, list[int]]] = {
    "offset torn": (torn(f"offsets/{N}"), [N, N + 1]),
    "metadata cut, its id whole": (torn("metadata", 45), [N, N + 1]),
    "commit of the newest torn": (both(gone(f"offsets/{N}"), torn(f"commits/{N - 1}", 5)), [N - 1, N, N + 1]),
    "commit before the newest torn": (torn(f"commits/{N - 1}", 5), [N, N + 1]),
    "offset before a finished one": (both(gone(f"offsets/{N}"), torn(f"offsets/{N - 2}")), [N, N + 1]),
    "source file torn": (torn(f"sources/0/{N}"), [N, N + 1]),
    "checksum left": (lambda query: query.path(f"offsets/{N}").unlink(), [N, N + 1]),
    "commit without offset": (copied("commits/1", f"commits/{N + 1}"), [N, N + 1]),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_ss_04_a_repaired_query_loses_and_doubles_nothing(spark: Any, query: Folder, name: str) -> None:
    broken, batches = REPAIRED[name]
    broken(query)
    for problem in query.check(ask=True).problems:
        obey(query, problem.repair)
    assert query.check(ask=True).ok
    seen = run(spark, query)
    print(f"{name}: batches {seen}, {len(query.rows())} rows")
    assert query.rows() == ALL
    assert set(seen) <= set(batches)
    assert query.check(ask=True).findings == () or name in ("metadata cut, its id whole", "offset before a finished one")


def test_ss_04_lost_commits_are_made_up(spark: Any, query: Folder) -> None:
    query.remove(f"commits/{N - 1}")
    obey(query, only(query.check()).repair.partition(";")[0])
    assert query.check(ask=True).ok
    assert run(spark, query) == [N, N + 1]
    assert query.rows() == ALL


def test_spark_itself_does_not_start_on_what_is_a_problem(spark: Any, query: Folder) -> None:
    """A checksum that is left beside a removed file is the trap in the most natural repair of all."""
    query.cut(f"offsets/{N}", 30)
    assert not query.check().ok
    with pytest.raises(Exception, match="Unexpected end-of-input"):
        run(spark, query)
    query.path(f"offsets/{N}").unlink()
    assert only(query.check()).code == "checksum-left"
    with pytest.raises(Exception, match="Multiple streaming queries are concurrently using"):
        run(spark, query)
    query.path(f"offsets/.{N}.crc").unlink()
    assert query.check().ok
    run(spark, query)
    assert query.rows() == ALL
