"""A look at the checkpoint folder of a Spark query before it is started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from gapless.errors import ObjectNotFound
from gapless.model.operation import SequenceId, operation_key
from gapless.model.protocols import ShowsUnfinished, Store
from gapless.spark.checkpoint_facts import CheckpointFacts, Sink, hidden
from gapless.spark.checkpoint_files import Damaged, FromNewerSpark, LogFolder, query_in, query_of
from gapless.spark.checkpoint_finding import CheckpointFinding, CheckpointReport
from gapless.spark.checkpoint_rules import examine_checkpoint
from gapless.spark.inside import inside
from gapless.spark.staging import open_to_write
from gapless.store.open import open_store
from gapless.table.lifecycle import Location
from gapless.table.table import TimeSeriesTable

_READ = 12
"""How many of the newest files of a log are read: Spark reads two, and compacts every ten."""
_NUMBERED = re.compile(r"(\d{1,18})(\.compact)?")
_CHECKSUM = re.compile(r"\.(\d{1,18}(?:\.compact)?)\.crc")


def check_checkpoint(
    location: str | os.PathLike[str],
    *,
    table: TimeSeriesTable | Location | None = None,
    app_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CheckpointReport:
    """Look at the checkpoint folder of a query that does not run now: whether Spark can go on, and what mends it if not.

    Args:
        location: Path or URL of the folder, as the query's `checkpointLocation` has it.
        table: The table that the query writes to. Then it is asked which batches it has, and repairs that depend on it are definite.
        app_id: Under which the query writes to it; without it, its batches are known by the query's id.
        storage_options: For a bucket, as in `gl.open`.

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
    sink = None if table is None else _sink(table, app_id, query)
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


def _sink(table: TimeSeriesTable | Location, app_id: str | None, query: str | None) -> Sink | None:
    """What the table's newest version has of the query; None where the query has no name."""
    known = inside(open_to_write(table))
    applied = known.committer.refresh(known.snapshot).state.applied
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
