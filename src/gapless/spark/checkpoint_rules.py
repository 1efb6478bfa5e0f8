"""All that is to be said about a Spark checkpoint folder: pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless.spark.checkpoint_facts import (
    ASK,
    CheckpointFacts,
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
from gapless.spark.checkpoint_files import LogFolder, check_source, file_log_offset
from gapless.spark.checkpoint_finding import CheckpointCode, CheckpointFinding
from gapless.spark.checkpoint_logs import examine_commits, examine_metadata, examine_offsets


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
