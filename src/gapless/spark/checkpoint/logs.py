"""What is wrong with the two logs of a Spark checkpoint, and how it is mended without losing or doubling a row: pure.

Spark writes `offsets/N` before it runs batch N, and `commits/N` once the sink has it; it plans no batch before the last is finished. At
a start it reads the newest two offsets and the newest commit; if the newest batch is not in `commits/` it runs it again with the offsets
that it has, which a sink that knows batches by their numbers passes over. What must never be is a batch of a known number with other
rows: so offsets may be removed only where no sink has that batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.spark.checkpoint.files import Damaged, query_in, query_of
from gapless.spark.checkpoint.findings import (
    ASK,
    CheckpointCode,
    CheckpointFinding,
    Progress,
    after,
    files,
    hidden,
    note,
    problem,
    sentence,
    span,
)

_EMPTY_COMMIT = 'the two lines v1 and {"nextBatchWatermarkMs":0}'


def examine_metadata(progress: Progress) -> Iterator[CheckpointFinding]:
    """Whether the query's id is there."""
    data = progress.facts.metadata
    if data is None:
        if max(progress.planned, progress.finished) >= 0:
            what = "metadata is missing, which holds the query's id: Spark would make up another one, and no sink knows that"
            yield problem("metadata-missing", "metadata", what, _metadata_repair(progress, None))
        return
    try:
        query_of(data)
    except Damaged as damage:
        what = f"metadata cannot be read: {damage}; Spark does not start the query"
        yield problem("metadata-damaged", "metadata", what, _metadata_repair(progress, query_in(data)))


def _metadata_repair(progress: Progress, query: str | None) -> str:
    checksum = f" and remove {hidden('metadata')}" if "metadata" in progress.facts.checksums else ""
    if query is not None:
        return f'Write {{"id":"{query}"}} into metadata{checksum}: the id is still whole in it'
    return (
        f'Put it back from a copy, or write {{"id":"…"}} into metadata{checksum}, with the query\'s id, which Spark tells in its log and '
        "progress. Where the sink has an app_id, any such id will do"
    )


# -- offsets -----------------------------------------------------------------------------------------------------------


def examine_offsets(progress: Progress) -> Iterator[CheckpointFinding]:
    """Whether Spark can read where batches end."""
    log, anchor = progress.facts.offsets, progress.anchor
    # Of the newest batch Spark asks for the one before, too, which is not there where the folder begins with the newest.
    asked = {anchor - 1} if anchor > 0 else set()
    for number in sorted({*range(min(log.files, default=0), progress.planned + 1), *asked}):
        path = f"{log.path}/{number}"
        if number in log.files and number not in progress.torn_offsets:
            continue
        there = number in log.files
        code: CheckpointCode = "offset-damaged" if there else "offset-missing"
        what = f"{path} cannot be read: {progress.torn_offsets[number]}" if there else f"{path} is missing"
        if number < anchor - 1:
            yield note(code, path, f"{what}; Spark does not ask for it")
        else:
            yield problem(code, path, what, _stand_in(progress) if number == anchor - 1 else _plan_again(progress))


def _stand_in(progress: Progress) -> str:
    path, other = (f"{progress.facts.offsets.path}/{progress.anchor - back}" for back in (1, 0))
    checksum = f" and remove {hidden(path)}" if path in progress.facts.offsets.checksums else ""
    return (
        f"Copy {other} to {path}{checksum}: batch {progress.anchor} is finished, so Spark asks only that the file of the batch before it "
        "can be read"
    )


def _plan_again(progress: Progress) -> str:
    """How to go on where the offsets past the anchor cannot be used."""
    anchor, done = progress.anchor, progress.done
    if done > anchor:
        whose = "Spark" if progress.finished == done else "the table"
        return (
            f"Put {span(progress.facts.offsets, anchor + 1, progress.planned)} back from a copy of the folder, and remove none: {whose} holds batch "
            f"{done} for finished, and where it ends is written nowhere else"
        )
    where = f"from where batch {anchor} ends" if anchor >= 0 else "as none is finished"
    act = f"remove {files(progress.facts.offsets, after(progress.facts.offsets, anchor))}: Spark plans batch {anchor + 1} anew, {where}"
    return _unless(progress, f"no batch after {anchor}", act, f"put offsets/{anchor + 1} and those after it back from a copy")


def _unless(progress: Progress, lacks: str, act: str, otherwise: str) -> str:
    """What to do if the sink lacks some batches, and otherwise; the first alone where the table was asked."""
    if progress.facts.sink is not None:
        return f"{sentence(act)}; the table has {lacks}"
    return f"If the sink has {lacks}, {act}; else {otherwise}. {ASK}"


# -- commits -----------------------------------------------------------------------------------------------------------


def examine_commits(progress: Progress) -> Iterator[CheckpointFinding]:
    """Whether Spark can read which batches are finished, and whether that is in step with the offsets."""
    log, finished, planned = progress.facts.commits, progress.finished, progress.planned
    torn = finished in progress.torn_commits and planned - 1 <= finished <= planned
    for number in range(min(log.files, default=0), finished if torn or finished > planned else finished + 1):
        path = f"{log.path}/{number}"
        if number not in log.files:
            yield note("commit-missing", path, f"{path} is missing; Spark does not ask for it")
        elif number in progress.torn_commits:
            what = f"{path} cannot be read: {progress.torn_commits[number]}; Spark does not ask for it"
            yield note("commit-damaged", path, what)
    if finished > planned:
        yield _without_offset(progress)
    elif torn:
        path = f"{log.path}/{finished}"
        repair = _run_again(progress) if finished == planned else sentence(_rewrite(progress))
        yield problem("commit-damaged", path, f"{path} cannot be read: {progress.torn_commits[finished]}", repair)
    elif progress.anchor == planned > finished + 1:
        yield from _behind(progress)


def _run_again(progress: Progress) -> str:
    return (
        f"Remove {files(progress.facts.commits, [progress.finished])}: Spark runs batch {progress.finished} again, with the same rows, "
        "and a sink that knows batches by their numbers, as gapless does, passes it over; for another sink put the file back from a copy"
    )


def _rewrite(progress: Progress) -> str:
    """How a commit is made up that is not the newest batch's: Spark takes nothing else from it than that it is there."""
    number = progress.planned - 1
    path = f"{progress.facts.commits.path}/{number}"
    checksum = f" and remove {hidden(path)}" if path in progress.facts.commits.checksums else ""
    return (
        f"write {_EMPTY_COMMIT} into {path}{checksum}: Spark goes on with batch {number + 1}, whose watermark is in its offsets"
    )


def _without_offset(progress: Progress) -> CheckpointFinding:
    log, planned, finished = progress.facts.commits, progress.planned, progress.finished
    path = f"{log.path}/{finished}"
    last = f"offsets end with batch {planned}" if planned >= 0 else "there are no offsets"
    copy = f"put {span(progress.facts.offsets, planned + 1, finished)} back from a copy: where those batches end is written nowhere else"
    sink = progress.facts.sink
    if planned < 0 or (sink is not None and sink.newest is not None and sink.newest > planned):
        repair = sentence(copy)
    else:
        repair = _unless(progress, f"no batch after {planned}", f"remove {files(log, after(log, planned))}", copy)
    return problem("commit-without-offset", path, f"{path} says that batch {finished} is finished, but {last}", repair)


def _behind(progress: Progress) -> Iterator[CheckpointFinding]:
    planned, finished, sink = progress.planned, progress.finished, progress.facts.sink
    path = f"{progress.facts.commits.path}/{planned - 1}"
    last = f"batch {finished}" if finished >= 0 else "none"
    what = (
        f"offsets go up to batch {planned}, and {last} is the last finished: Spark would run batch {planned} and none before it"
    )
    if sink is None:
        has = f"the sink has batch {planned - 1}, as it must where both logs are of one moment"
        otherwise = f"if it has {f'batch {finished} last' if finished >= 0 else 'no batch'}, {_rewind(progress, finished)}"
        yield problem("commit-missing", path, what, f"If {has}, {_rewrite(progress)}; {otherwise}. {ASK}")
    elif progress.in_sink >= planned - 1:
        yield note("commit-missing", path, f"{what}; the table has batch {planned - 1}, so nothing is lost")
    elif progress.in_sink >= finished:
        repair = f"{sentence(_rewind(progress, progress.in_sink))}; the table has {sink}"
        yield problem("commit-missing", path, what, repair)


def _rewind(progress: Progress, last: int) -> str:
    """How batches after `last`, which no sink has, are run again."""
    first, log = last + 1, progress.facts.offsets
    if not {max(last, 0), first} <= progress.offsets.keys():
        return "put the folder back from a copy that is not newer than the sink"
    return f"remove {files(log, after(log, first))}: Spark runs batch {first} again and plans those after it anew"
