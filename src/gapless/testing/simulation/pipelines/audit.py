"""The auditor of pipelines: what each brought into the sink is what the source's history gives up to the cursor that was decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gapless.connect import CommitInfo
from gapless.testing.simulation.pipelines.stores import CheckpointWatch, Marked
from gapless.testing.simulation.pipelines.tasks import ByHand, Pipeline, PipelineHistory, Ran, RunPipeline, removes
from gapless.testing.simulation.tasks import Row
from gapless.testing.simulation.watch import Ledger, Logged


def _inserted(commit: Logged) -> Counter[Row]:
    """The rows that a commit only added; none of one that took files away: a source that skips changes leaves all its rows out."""
    landed = commit.landed
    actions = landed.body["actions"] if hasattr(landed, "body") else landed.actions
    removes = any(name in action for action in actions for name in ("RemoveSegment", "remove"))
    return Counter() if removes else Counter(commit.rows) - Counter(commit.before)


def _given(
    pipeline: Pipeline, source: Ledger, start: Mapping[str, Any], cursor: Mapping[str, Any]
) -> tuple[Counter[Row], Counter[Row]]:
    """The rows up to a cursor, marked: those of all versions before it, folded, and those of its own, of which it has so many."""
    whole: Counter[Row] = Counter(pipeline.initial)
    if cursor["whole"]:
        return whole, _marked(pipeline, Counter(source.rows_at(cursor["version"])))
    version = start["version"]
    if start["whole"]:
        whole = _marked(pipeline, Counter(source.rows_at(version)))
        version += 1
    for number in range(version, cursor["version"]):
        whole = pipeline.applied(whole, _marked(pipeline, _inserted(source.commits[number])))
    last = source.commits.get(cursor["version"])
    return whole, Counter() if last is None else _marked(pipeline, _inserted(last))


def _marked(pipeline: Pipeline, rows: Counter[Row]) -> Counter[Row]:
    return Counter({pipeline.marked(row): count for row, count in rows.items()})


def _check_rows(
    pipeline: Pipeline, source: Ledger, start: Mapping[str, Any], cursor: Mapping[str, Any], found: tuple[Row, ...]
) -> Iterator[str]:
    """The rows of a pipeline in a version of the sink are those up to the cursor."""
    whole, last = _given(pipeline, source, start, cursor)
    there = Counter(found)
    keys, left = {row[:2] for row in whole}, {row[:2] for row in there}
    gone = {row for row in last if removes(pipeline.mode, row)}
    silent = sum(row[:2] not in keys for row in gone) if cursor["row"] else 0  # of which nobody sees whether they were taken
    seen = {row: row[:2] in keys - left if row in gone else there[row] > whole[row] for row in last}
    taken = Counter({row: count for row, count in last.items() if seen[row]}) if cursor["row"] else Counter()
    wanted = pipeline.applied(whole, taken)
    if not taken.total() <= cursor["row"] <= taken.total() + silent:
        yield f"{taken.total()} rows of version {cursor['version']} are there, and the cursor is after {cursor['row']} of them"
    if there != wanted:
        yield f"it has too many {dict(there - wanted)} and lacks {dict(wanted - there)} up to {dict(cursor)}"


def _check_overwritten(
    pipeline: Pipeline, source: Ledger, before: Mapping[str, Any], cursor: Mapping[str, Any], found: tuple[Row, ...]
) -> Iterator[str]:
    """The rows of a pipeline that overwrites are those from one cursor to the next: of a version that they divide so many as they say."""
    there = Counter(found)
    for version in range(before["version"], cursor["version"] + 1):
        commit = source.commits.get(version)
        rows = Counter[Row]() if commit is None else _marked(pipeline, _inserted(commit))
        first = before["row"] if version == before["version"] else 0
        wanted = (cursor["row"] if version == cursor["version"] else rows.total()) - first
        if (have := (there & rows).total()) != wanted:
            yield f"it has {have} rows of version {version}, and should have {wanted} from {dict(before)} to {dict(cursor)}"
        there -= rows
    if there:
        yield f"it has {dict(there)} too many from {dict(before)} to {dict(cursor)}"


def _cursor(mark: Marked) -> Mapping[str, Any]:
    state: Mapping[str, Any] = mark.body["checkpoint"]["cursor"]["state"]
    return state


def start_of(pipeline: Pipeline, watch: CheckpointWatch, history: PipelineHistory) -> Mapping[str, Any] | None:
    """Where the source began for the first checkpoint that was decided; None where none was."""
    mine = [mark for mark in watch.truths() if f"checkpoints/{mark.folder}" == pipeline.folder and mark.body["commit"]]
    if not mine:
        return None
    first = min(mine, key=lambda mark: mark.number)
    return history.prepared[first.body["checkpoint"]["prepared"]["main"]["attempt"]].start


def check_pipeline(
    pipeline: Pipeline, source: Ledger, sink: Ledger, watch: CheckpointWatch, history: PipelineHistory
) -> Iterator[str]:
    """Every version of the sink has of it what its newest checkpoint there says."""
    truths = {mark.number: mark for mark in watch.truths() if f"checkpoints/{mark.folder}" == pipeline.folder}
    start = start_of(pipeline, watch, history)
    at: Mapping[str, Any] | None = None
    before = start
    for commit in sink.commits.values():
        for operation in commit.operations:
            if operation.get("app_id") != pipeline.app:
                continue
            mark = truths.get(operation["sequence"])
            if mark is None or not mark.body["commit"]:
                yield f"version {commit.version} holds checkpoint {operation['sequence']}, which was not decided"
                return
            at = _cursor(mark)
            earlier = [one for one in truths.values() if one.number < mark.number and one.body["commit"]]
            before = _cursor(max(earlier, key=lambda one: one.number)) if earlier else start
        own = pipeline.own(commit.rows)
        if at is None or start is None:
            if own not in ((), tuple(sorted(pipeline.initial))):
                yield f"version {commit.version} has other rows of it than {pipeline.initial} before any checkpoint"
            continue
        if pipeline.mode == "overwrite" and before is not None:
            faults = [*_check_overwritten(pipeline, source, before, at, own)]
        else:
            faults = [*_check_rows(pipeline, source, start, at, own)]
        yield from (f"version {commit.version}: {fault}" for fault in faults)
        if faults:
            return
    yield from _check_done(pipeline, sink, watch)


def _check_done(pipeline: Pipeline, sink: Ledger, watch: CheckpointWatch) -> Iterator[str]:
    """What was said to be done was in the sink by then."""
    truths = {mark.number: mark for mark in watch.truths() if f"checkpoints/{mark.folder}" == pipeline.folder}
    for done in watch.done:
        if f"checkpoints/{done.folder}" != pipeline.folder:
            continue
        mark = truths.get(done.number)
        if mark is None or not mark.body["commit"]:
            yield f"checkpoint {done.number} is done, and was not decided"
        elif mark.body["checkpoint"]["prepared"]["main"]["files"] and _landed(pipeline, sink, done.landed_ns) < done.number:
            yield f"checkpoint {done.number} was said to be done before the sink had it"


def _landed(pipeline: Pipeline, sink: Ledger, by_ns: int) -> int:
    """The highest checkpoint that the sink had by then."""
    commits = (commit for commit in sink.commits.values() if commit.landed.landed_ns <= by_ns)
    operations = (operation for commit in commits for operation in commit.operations)
    return max((one["sequence"] for one in operations if one.get("app_id") == pipeline.app), default=-1)


def check_runs(sink: Ledger, history: PipelineHistory) -> Iterator[str]:
    """What a run reports is in the version that it names."""
    for ran in history.ran:
        if isinstance(ran.task, RunPipeline) and ran.answer is not None:
            for info in ran.answer.commits.values():
                yield from (f"{ran.actor}'s run: {fault}" for fault in _check_info(ran.task.pipeline.app, info, sink, ran))


def _check_info(app: str, info: CommitInfo, sink: Ledger, ran: Ran) -> Iterator[str]:
    commit = sink.commits.get(info.version)
    if commit is None:
        yield f"it reports version {info.version}, which the log does not have"
    elif not info.already_committed and ran.answer.rows and not _holds(commit, app, info.checkpoint_id):
        yield f"version {info.version} does not hold checkpoint {info.checkpoint_id}, of which it says so"


def _holds(commit: Logged, app: str, number: int) -> bool:
    return any((one.get("app_id"), one.get("sequence")) == (app, number) for one in commit.operations)


def check_hands(sink: Ledger, history: PipelineHistory) -> Iterator[str]:
    """Of each commit that was prepared by hand all rows are there, once and for ever, or none; and each answer was right."""
    for number in sorted(history.handed):
        acts = [ran for ran in history.ran if isinstance(ran.task, ByHand) and ran.task.number == number]
        wanted = next(ran.task.rows for ran in acts if isinstance(ran.task, ByHand) and ran.task.act == "prepare")
        entity = wanted[0][1]
        versions = [tuple(sorted(row for row in commit.rows if row[1] == entity)) for commit in sink.commits.values()]
        there = [rows == tuple(sorted(wanted)) for rows in versions]
        committed = any(there)
        if there != sorted(there) or any(rows and not whole for rows, whole in zip(versions, there, strict=True)):
            yield f"of {number}, prepared by hand, versions have {versions}"
        yield from (f"{ran.actor} was told {ran.answer} of {number}" for ran in acts if _is_wrong(ran, committed=committed))


def _is_wrong(ran: Ran, *, committed: bool) -> bool:
    """Whether an answer is not what became of a commit that was prepared by hand."""
    if not isinstance(ran.task, ByHand) or ran.answer is None:
        return False
    match ran.task.act:
        case "finalize":
            return not committed
        case "abort":
            return bool(ran.answer) is committed
    return False
