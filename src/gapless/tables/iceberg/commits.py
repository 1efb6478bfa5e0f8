"""Commits to an Iceberg table: one snapshot that says whose it is, put after the newest again and again until it is there, once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetPropertiesUpdate
from pyiceberg.table.update.snapshot import _FastAppendFiles, _ManifestMergeManager, _OverwriteFiles, _SnapshotProducer
from pyiceberg.utils.properties import property_as_bool, property_as_int

from gapless.errors import CommitConflict, CommitOutcomeUnknown
from gapless.formats.iceberg.operations import Applied
from gapless.model.instant import NS_PER
from gapless.model.operation import SequenceId, Tally
from gapless.publish.iceberg.changes import TableChange
from gapless.runtime.backoff import Backoff
from gapless.runtime.committer import nothing
from gapless.runtime.metrics import RETRIES
from gapless.tables.iceberg.place import Loaded, Outcome
from gapless.tables.iceberg.table import IcebergTable, last_sequence
from gapless.tables.shared.landing import ChangeOutcome

_BACKOFF = Backoff(first_s=0.01, longest_s=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a snapshot does to the files of the one before it."""

    added: Sequence[DataFile] = ()
    removed: Sequence[DataFile] = ()
    tally: Tally = field(default_factory=Tally)
    summary: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    discard: Callable[[], None] = nothing
    """Removes what was written for this change alone, where it is certain that it is not committed."""


Propose = Callable[[Loaded], Change]


def land_change(
    table: IcebergTable, propose: Propose, operation: SequenceId, kind: str, check: Callable[[], None] = nothing
) -> ChangeOutcome:
    """Commit a change once: where the table knows the operation, it is only told.

    `propose` makes the change for a version; `check` is called for each, before that, and may raise. Raises CommitConflict where other writers
    were first until the deadline, CommitOutcomeUnknown, OperationReused, and what these raise.
    """

    def marked(loaded: Loaded) -> Change:
        check()
        change = propose(loaded)
        version = last_sequence(loaded.metadata) + 1
        applied = Applied(operation=operation, kind=kind, version=version, tally=change.tally)
        return replace(change, summary=applied.summary, properties=applied.remembered)

    landed = land(table, marked, lambda: table.known(operation, kind) is not None)
    if landed is None:
        known = table.known(operation, kind)
        assert known is not None
        return known
    return ChangeOutcome(landed.tally, table.version)


def land(table: IcebergTable, propose: Propose, is_done: Callable[[], bool]) -> Change | None:
    """Commit a change after the newest version; None where `is_done` at one that was read. Raises as `land_change`."""
    clock, attempt = table.env.clock, 0
    until = clock.monotonic() + table.env.deadline_s
    loaded = table.refresh()
    while not is_done():
        change = propose(loaded)
        outcome, producer = _try(table, loaded, change)
        loaded = table.refresh()
        # A conflict may be with our own commit, which something on the way sent twice.
        if outcome == "landed" or loaded.metadata.snapshot_by_id(producer.snapshot_id) is not None:
            return change
        if outcome == "lost" and not is_done():
            _discard(table, change, producer)
        # An unclear one is tried again, too: both follow the same snapshot, so that one of the two fails.
        if clock.monotonic() >= until:
            raise _given_up(table, producer.snapshot_id, unclear=outcome == "unclear")
        attempt += 1
        RETRIES.add(1, "race" if outcome == "lost" else "no_answer", table.env.store.url)
        clock.sleep(_BACKOFF.wait_s(attempt, table.env.ids.jitter()))
        loaded = table.refresh()
    return None


def _try(table: IcebergTable, loaded: Loaded, change: Change) -> tuple[Outcome, _SnapshotProducer[Any]]:
    """What became of one try, and who wrote its manifests, which stay."""
    producer = _producer(table, loaded, change)
    number = int(table.env.ids.uuid().replace("-", "")[:16], 16) >> 1 or 1
    producer._snapshot_id = number  # noqa: SLF001 - of the library's class below
    try:
        update, time_ms = _update(table, loaded, change, producer)
    except BaseException:
        _discard(table, change, producer)
        raise
    return table.place.commit(loaded, update, time_ms), producer


def _discard(table: IcebergTable, change: Change, producer: _SnapshotProducer[Any]) -> None:
    """Remove what was written for a try that certainly is not committed."""
    change.discard()
    for location in (*producer._written_manifests, *producer._written_manifest_lists):  # noqa: SLF001
        with contextlib.suppress(Exception):
            table.io.delete(location)


def _update(table: IcebergTable, loaded: Loaded, change: Change, producer: _SnapshotProducer[Any]) -> tuple[TableChange, int]:
    """Write the manifests; what the commit asks for and changes, and its time in milliseconds."""
    for one in change.added:
        producer.append_data_file(one)
    for one in change.removed:
        producer.delete_data_file(one)
    (added, *others), requirements = producer._commit()  # noqa: SLF001
    added = cast("AddSnapshotUpdate", added)
    time_ms = max(table.env.clock.now_ns() // NS_PER["ms"], loaded.metadata.last_updated_ms)
    dated = AddSnapshotUpdate(snapshot=added.snapshot.model_copy(update={"timestamp_ms": time_ms}))
    told = (dated, *others, *([SetPropertiesUpdate(updates=dict(change.properties))] if change.properties else []))
    needed = (AssertTableUUID(uuid=loaded.metadata.table_uuid), *requirements)
    return TableChange(needed, told, producer.snapshot_id), time_ms


def _given_up(table: IcebergTable, snapshot_id: int, *, unclear: bool) -> CommitConflict | CommitOutcomeUnknown:
    if unclear:
        return CommitOutcomeUnknown(
            f"whether {table.options.place} has snapshot {snapshot_id} is not known",
            why="The catalog gave no answer that says it until the deadline; no data file was deleted",
            fix="Finalize again when the catalog answers: what landed is found",
            version=table.version,
            commit_id=str(snapshot_id),
        )
    return CommitConflict(
        f"other writers of {table.options.place} were first until the deadline of {table.env.deadline_s:g} s",
        why="Each commit follows the newest snapshot; nothing was committed",
        fix="Finalize again",
        version=table.version,
        reason="another writer",
    )


# -- how the library writes manifests ----------------------------------------------------------------------------------


def _producer(table: IcebergTable, loaded: Loaded, change: Change) -> _SnapshotProducer[Any]:
    kind: Any = _Overwrite if change.removed else _Append if change.added else _Same
    operation = Operation.OVERWRITE if change.added else Operation.DELETE
    made: _SnapshotProducer[Any] = kind(
        operation=operation if change.removed else Operation.APPEND,
        transaction=_AtVersion(loaded.table),
        io=table.io,
        snapshot_properties=dict(change.summary),
    )
    return made


def _merged(producer: _SnapshotProducer[Any], manifests: list[ManifestFile]) -> list[ManifestFile]:
    """Manifests of live files alone, small ones as one: as Iceberg's own writers do unless `commit.manifest-merge.enabled` is false."""
    properties, mine = producer._transaction.table_metadata.properties, producer.snapshot_id  # noqa: SLF001
    live = [one for one in manifests if one.added_snapshot_id == mine or one.has_added_files() or one.has_existing_files()]
    names = TableProperties
    merging: _ManifestMergeManager[Any] = _ManifestMergeManager(
        target_size_bytes=property_as_int(
            properties, names.MANIFEST_TARGET_SIZE_BYTES, names.MANIFEST_TARGET_SIZE_BYTES_DEFAULT
        )
        or names.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
        min_count_to_merge=property_as_int(properties, names.MANIFEST_MIN_MERGE_COUNT, names.MANIFEST_MIN_MERGE_COUNT_DEFAULT)
        or names.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
        merge_enabled=property_as_bool(properties, names.MANIFEST_MERGE_ENABLED, True),
        snapshot_producer=producer,
    )
    deletes = [one for one in live if one.content == ManifestContent.DELETES]
    return merging.merge_manifests([one for one in live if one.content == ManifestContent.DATA]) + deletes


class _AtVersion(Transaction):
    """Without changes of its own: the library copies all snapshots each time that it is asked for the metadata, a dozen times a commit."""

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


class _Append(_FastAppendFiles):
    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        return _merged(self, manifests)


class _Overwrite(_OverwriteFiles):
    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        return _merged(self, manifests)


class _Same(_FastAppendFiles):
    """The same files as before: the snapshot says something in its summary alone."""

    def _summary(self, snapshot_properties: Any = ()) -> Summary:  # the library's
        made = super()._summary(dict(snapshot_properties))
        return Summary(operation=Operation.REPLACE, **made.additional_properties)
