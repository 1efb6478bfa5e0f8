"""Check the checkpoint folder of a Spark streaming query before it is started, and say how to repair it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gapless.errors import ObjectNotFound
from gapless.model.operation import SequenceId, operation_key
from gapless.model.protocols import ShowsUnfinished, Store
from gapless.spark.checkpoint.files import Damaged, FromNewerSpark, LogFolder, check_source, file_log_offset, query_in, query_of
from gapless.spark.checkpoint.findings import (
    ASK,
    CheckpointCode,
    CheckpointFacts,
    CheckpointFinding,
    CheckpointReport,
    Progress,
    Sink,
    after,
    altered,
    files,
    hidden,
    note,
    problem,
    read_log,
    sentence,
)
from gapless.spark.checkpoint.logs import examine_commits, examine_metadata, examine_offsets
from gapless.spark.setup.tables import Table
from gapless.spark.stream.batch_tables import applied_to
from gapless.store.open import open_store
from gapless.tables.shared.handle import Location
from gapless.tables.shared.landing import AppliedOperation


def examine_checkpoint(facts: CheckpointFacts) -> list[CheckpointFinding]:
    """Problems and notes, in the order of `CheckpointReport.findings`; raises `FromNewerSpark` for logs in a form that is not known."""
    progress = Progress(facts)
    findings = []
    if max(progress.planned, progress.finished) < 0:
        what = (
            "no batch has been planned here: a query that starts with this checkpoint begins with the first row of its source"
        )
        findings.append(note("nothing-there", "", what))
    findings += [*examine_metadata(progress), *examine_offsets(progress), *examine_commits(progress)]
    for number, log in sorted(facts.sources.items()):
        findings += _examine_source(SourceLog.of(progress, number, log))
    return [*findings, *_examine_sink(progress), *_leftovers(facts)]


# -- sources -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLog:
    """A source's own log, against the offsets of batches. Of sources of files Spark reads all from the newest `.compact` on."""

    progress: Progress
    log: LogFolder
    planned: int | None
    """Up to which file of it batches have been planned; None where the source is not one of files."""
    settled: int
    """Up to which file of it batches are finished; -1 where none is known."""

    @classmethod
    def of(cls, progress: Progress, number: int, log: LogFolder) -> SourceLog:
        """The log of source `number`."""
        ends = {batch: file_log_offset(lines[number]) for batch, lines in progress.offsets.items() if number < len(lines)}
        settled = [end for batch, end in ends.items() if end is not None and batch <= progress.done]
        return cls(progress=progress, log=log, planned=ends.get(progress.anchor), settled=max(settled, default=-1))

    @property
    def needed(self) -> range:
        """The files that Spark reads."""
        if self.planned is None:
            return range(0)
        first = max((one for one, path in self.log.files.items() if path.endswith(".compact")), default=0)
        return range(first, max(self.planned, self.log.newest or 0) + 1)


def _examine_source(source: SourceLog) -> Iterator[CheckpointFinding]:
    _, torn = read_log(source.log, check_source)
    # What is cut off between two lines is missed by nothing else, and Spark would read that input again.
    torn = dict.fromkeys(altered(source.log), "it is not as Spark wrote it, by its checksum") | torn
    missing = {one for one in source.needed if one not in source.log.files}
    for one in sorted(missing | torn.keys()):
        path = source.log.files.get(one, f"{source.log.path}/{one}")
        code: CheckpointCode = "source-damaged" if one in torn else "source-missing"
        what = f"{path} cannot be read: {torn[one]}" if one in torn else f"{path} is missing"
        if source.planned is not None and one not in source.needed:
            yield note(code, path, f"{what}; Spark does not ask for it")
        else:
            yield problem(code, path, what, _source_repair(source, one))


def _source_repair(source: SourceLog, one: int) -> str:
    progress, rest = source.progress, after(source.log, one - 1)
    if source.planned is not None and one > source.planned:
        return f"Remove {files(source.log, rest)}: no batch has been planned with it, so the source finds that input again"
    batch = progress.planned
    if source.planned is None or one <= source.settled or not progress.done < batch == progress.anchor:
        return "Put it back from a copy of the folder: it says which input finished batches had"
    both = " and ".join(part for part in (files(source.log, rest), files(progress.facts.offsets, [batch])) if part)
    act = f"remove {both}: Spark plans batch {batch} anew"
    if progress.facts.sink is not None:
        return f"{sentence(act)}; the table has no batch {batch}"
    return f"If the sink has no batch {batch}, {act}; else put the file back from a copy. {ASK}"


# -- the table ---------------------------------------------------------------------------------------------------------


def _examine_sink(progress: Progress) -> Iterator[CheckpointFinding]:
    sink = progress.facts.sink
    if sink is None:
        return
    # Commits without offsets are told of by themselves.
    finished = max((number for number in progress.facts.commits.files if number <= progress.planned), default=-1)
    if progress.in_sink > progress.planned:
        yield _table_ahead(sink, progress.planned)
    elif finished > progress.in_sink:
        what = f"Spark holds batch {finished} for finished, and the table has {sink}: rows are missing"
        repair = (
            "Look whether the query writes to this table, and under this app_id. If the table was put back to an earlier version, put the "
            "checkpoint of that time back too, or send the rows that it lacks by a query with a new checkpoint location and its own app_id"
        )
        yield problem("table-behind", "", what, repair)


def _table_ahead(sink: Sink, planned: int) -> CheckpointFinding:
    last = f"batch {planned} is the last that Spark has planned" if planned >= 0 else "Spark has planned none"
    if sink.named:
        what = f"the table has {sink}, and {last}: batches up to that one will be passed over, which is right if they bring the same rows"
        return note("table-ahead", "", what)
    what = (
        f"the table has {sink}, and {last}: the folder is an older copy, and rows of batches up to that one would be left out"
    )
    repair = (
        f"Put back the folder as it was after batch {sink.newest}; without one, send the rows that the table lacks by a query with a new "
        "checkpoint location and its own app_id"
    )
    return problem("table-ahead", "", what, repair)


# -- leftovers ---------------------------------------------------------------------------------------------------------


def _leftovers(facts: CheckpointFacts) -> Iterator[CheckpointFinding]:
    if facts.metadata is None and "metadata" in facts.checksums:
        yield _in_the_way("metadata")
    for log in (facts.offsets, facts.commits, *(facts.sources[number] for number in sorted(facts.sources))):
        for path in log.unfinished:
            what = f"{path} was left by a write that was ended; Spark does not read it, it may be removed"
            yield note("unfinished", path, what)
        for path in log.strangers:
            yield note("stranger", path, f"{path} is no file that Spark writes here, and Spark does not read it")
        for path in sorted(log.checksums.keys() - set(log.files.values())):
            number = int(path.rpartition("/")[2].partition(".")[0])
            if log.newest is None or number > log.newest:
                yield _in_the_way(path)
            else:
                # Spark removes old files before their checksums, and may have been ended between the two.
                yield note(
                    "checksum-left", hidden(path), f"{hidden(path)} is there without {path}, which Spark does not write again"
                )
    for log in (facts.offsets, facts.commits):
        for number in sorted(altered(log)):
            path = log.files[number]
            what = f"{path} is not as Spark wrote it, by its checksum {hidden(path)}, at which Spark does not look"
            yield note("checksum-differs", path, what)


def _in_the_way(path: str) -> CheckpointFinding:
    what = f"{hidden(path)} is there without {path}: Spark fails when it is to write that, and speaks of concurrent queries"
    return problem("checksum-left", hidden(path), what, f"Remove {hidden(path)}")


_READ = 12
"""How many of the newest files of a log are read: Spark reads two, and compacts every ten."""
_NUMBERED = re.compile(r"(\d{1,18})(\.compact)?")
_CHECKSUM = re.compile(r"\.(\d{1,18}(?:\.compact)?)\.crc")


def check_checkpoint(
    location: str | os.PathLike[str],
    *,
    table: Table | Location | None = None,
    app_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> CheckpointReport:
    """Look at the checkpoint folder of a query that does not run now: whether Spark can go on, and what mends it if not.

    Args:
        location: Path or URL of the folder, as the query's `checkpointLocation` has it.
        table: The table that the query writes to, as `batch_writer` takes it. Then it is asked which batches it has, and repairs that depend
            on it are definite.
        app_id: Under which the query writes to it; without it, its batches are known by the query's id.
        storage_options: For a bucket, as in `gl.open`.
        options: Of an Iceberg or Hudi table: how it is reached, as `batch_writer` takes them.

    Finds metadata, offsets, commits and logs of sources that are missing, empty or cut off, logs out of step, what is left of unfinished
    writes and removed files, and a checkpoint and a table that are not of one moment. Changes nothing, and reads the newest files
    of each log, of which Spark itself reads two. A repair never starts the query from the beginning.

    It does not look at `state/`, at what offsets mean to a source, at sources that keep no log in Spark's form, or at whether another
    query runs here. Gaps that asynchronous progress tracking leaves on purpose are findings too.
    Raises InvalidPath, InvalidOption for a view or unknown storage options, StoreError, and as `gl.open` for the table.
    """
    store = open_store(location, storage_options)
    metadata = _get(store, "metadata")
    query = _query(metadata)
    sink = None if table is None else _sink(applied_to(table, options), app_id, query)
    facts = CheckpointFacts(
        metadata=metadata,
        checksums={} if (checksum := _get(store, hidden("metadata"))) is None else {"metadata": checksum},
        offsets=_log(store, "offsets"),
        commits=_log(store, "commits"),
        sources=_sources(store),
        sink=sink,
    )
    return CheckpointReport(
        url=store.url,
        query=query,
        newest_offset=facts.offsets.newest,
        newest_commit=facts.commits.newest,
        table_batch=None if sink is None else sink.newest,
        findings=tuple(_findings(facts)),
    )


def _findings(facts: CheckpointFacts) -> list[CheckpointFinding]:
    try:
        return examine_checkpoint(facts)
    except FromNewerSpark as newer:
        what = f"a file of the logs is of a newer Spark than is known here: {newer}"
        return [
            CheckpointFinding(code="newer-spark", path="", what=what, repair="Start the query with the Spark that wrote it")
        ]


def _query(metadata: bytes | None) -> str | None:
    """The query's id, from a damaged file too."""
    if metadata is None:
        return None
    try:
        return query_of(metadata)
    except Damaged:
        return query_in(metadata)


def _sink(applied: Mapping[str, AppliedOperation], app_id: str | None, query: str | None) -> Sink | None:
    """What a table that has applied this has of the query; None where the query has no name."""
    names = [name for name in (app_id, query) if name is not None]
    if not names:
        return None
    found = [applied[key].operation for name in names if (key := operation_key(SequenceId(name, 0))) in applied]
    newest = max((one.sequence for one in found if isinstance(one, SequenceId)), default=None)
    return Sink(app=names[0], named=app_id is not None, newest=newest)


def _sources(store: Store) -> dict[int, LogFolder]:
    numbers = {path.split("/")[1] for path in _paths(store, "sources") if path.count("/") > 1}
    return {int(number): _log(store, f"sources/{number}") for number in numbers if _NUMBERED.fullmatch(number)}


def _log(store: Store, folder: str) -> LogFolder:
    """A log's folder; folders in it are left alone."""
    files: dict[int, str] = {}
    checksums: dict[str, bytes] = {}
    unfinished: list[str] = []
    strangers: list[str] = []
    for path in sorted(_paths(store, folder)):
        name = path.removeprefix(f"{folder}/")
        if "/" in name:
            continue
        if match := _NUMBERED.fullmatch(name):
            files[int(match[1])] = path
        elif match := _CHECKSUM.fullmatch(name):
            checksums[f"{folder}/{match[1]}"] = _get(store, path) or b""
        else:
            (unfinished if name.startswith(".") and name.removesuffix(".crc").endswith(".tmp") else strangers).append(path)
    contents = {number: data for number in sorted(files)[-_READ:] if (data := _get(store, files[number])) is not None}
    return LogFolder(
        path=folder,
        files=files,
        contents=contents,
        checksums=checksums,
        unfinished=tuple(unfinished),
        strangers=tuple(strangers),
    )


def _paths(store: Store, folder: str) -> set[str]:
    found = {info.path for info in store.list(folder)}
    return found | {info.path for info in store.unfinished(folder)} if isinstance(store, ShowsUnfinished) else found


def _get(store: Store, path: str) -> bytes | None:
    try:
        return store.get(path)
    except ObjectNotFound:
        return None
