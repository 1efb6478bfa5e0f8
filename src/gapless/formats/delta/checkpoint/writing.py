"""Write Delta checkpoints as Parquet, one row an action: classic, or V2 with the same name and sidecars for many files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import CorruptTable
from gapless.formats.delta.action_codec import encode_action
from gapless.formats.delta.actions import AddFile, Applied, Json, RemoveFile, TableState, Txn
from gapless.formats.delta.checkpoint import names
from gapless.formats.delta.checkpoint.columns import SMALL, V2, add_column, pairs, remove_column
from gapless.formats.delta.checkpoint.names import FILES_EACH, FILES_FROM, SEAL_KEY, UNSEALED, Sidecar, encode_sidecar, seal
from gapless.formats.delta.checkpoint.reading import TIME_KEY, VERSION_KEY
from gapless.formats.delta.operation_ids import txn_of
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.replay import LiveFiles
from gapless.log.format import Packed, Snapshot
from gapless.model.instant import NS_PER

_MS = timedelta(milliseconds=1)


@contextmanager
def _telling(snapshot: Snapshot[TableState]) -> Iterator[None]:
    """Say of what a checkpoint has no column for, as numbers that another writer's JSON can hold, that it is damage."""
    try:
        yield
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise CorruptTable(
            f"version {snapshot.version} cannot be told as a log checkpoint: {type(error).__name__}: {error}",
            why="An action of the log holds a value that is none of its type",
            fix="Find who wrote it, and write that file's action anew",
            path=names.checkpoint_path(snapshot.version),
        ) from error


def encode_checkpoint(snapshot: Snapshot[TableState]) -> bytes:
    """The checkpoint's bytes; where its live files say sidecars, those are named, and file actions are not repeated.

    Tombstones past their retention, and transactions of other writers past theirs, are left out, as of the snapshot's commit time. Raises
    CorruptTable for what no checkpoint can hold.
    """
    with _telling(snapshot):
        return _encoded(snapshot)


def _encoded(snapshot: Snapshot[TableState]) -> bytes:
    sidecars = _sidecars_of(snapshot.state)
    few = list(_few(snapshot, sidecars))
    types = SMALL | (V2 if _is_v2(snapshot.state) else {})
    columns = {name: _column([row.get(name) for row in few], type_) for name, type_ in types.items()}
    files = [] if sidecars else list(snapshot.state.files.values())
    # Spark wants the columns even where all their rows are in sidecars.
    columns |= _file_columns(snapshot.state, files, [] if sidecars else _tombstones(snapshot))
    return _parquet(snapshot, _stacked(columns, len(few)))


def encode_pointer(snapshot: Snapshot[TableState], size: int) -> bytes:
    """`_last_checkpoint` for our checkpoint of a snapshot, whose object has `size` bytes."""
    sidecars, files = _sidecars_of(snapshot.state), len(snapshot.state.files)
    actions = sum(1 for _ in _few(snapshot, sidecars)) + files + len(_tombstones(snapshot))
    return names.encode_pointer(snapshot.version, actions, files, size + sum(one.size for one in sidecars))


def needs_sidecars(state: TableState) -> bool:
    """Whether the table's policy is V2, and there are so many files that they go into sidecars."""
    return _is_v2(state) and len(state.files) + len(state.removed) >= FILES_FROM


def pack(snapshot: Snapshot[TableState], token: str) -> Packed[TableState]:
    """The snapshot with its files in new sidecars where it owes them, which `token` tells from others; without any where not.

    Raises CorruptTable for what no checkpoint can hold.
    """
    files = LiveFiles.of(snapshot.state.files)
    stored: list[tuple[str, bytes]] = []
    if needs_sidecars(snapshot.state):
        chunks = list(_chunks(list(snapshot.state.files.values()), _tombstones(snapshot)))
        for number, (adds, removes) in enumerate(chunks, 1):
            path = names.sidecar_path(snapshot.version, number, len(chunks), token)
            with _telling(snapshot):
                columns = _file_columns(snapshot.state, adds, removes)
                stored.append((path, _parquet(snapshot, _stacked(columns, 0))))
        time_ms = snapshot.time_ns // NS_PER["ms"]
        files.sidecars = tuple(Sidecar(path=path, size=len(data), modified_ms=time_ms) for path, data in stored)
    elif not _sidecars_of(snapshot.state):
        return Packed(snapshot, ())
    return Packed(replace(snapshot, state=replace(snapshot.state, files=files)), tuple(stored))


def _chunks(adds: Sequence[AddFile], removes: Sequence[RemoveFile]) -> Iterator[tuple[Sequence[AddFile], Sequence[RemoveFile]]]:
    for start in range(0, max(len(adds), len(removes)), FILES_EACH):
        yield adds[start : start + FILES_EACH], removes[start : start + FILES_EACH]


def _is_v2(state: TableState) -> bool:
    return Settings.of(state.configuration).checkpoint_policy == "v2" and "v2Checkpoint" in state.protocol.reader_features


def _sidecars_of(state: TableState) -> tuple[Sidecar, ...]:
    return state.files.sidecars if isinstance(state.files, LiveFiles) and _is_v2(state) else ()


def _few(snapshot: Snapshot[TableState], sidecars: Sequence[Sidecar]) -> Iterator[dict[str, Json]]:
    """The actions that are no files, as `{name: body}`."""
    state = snapshot.state
    yield encode_action(state.protocol)
    yield encode_action(state.metadata)
    if _is_v2(state):
        yield {"checkpointMetadata": {"version": snapshot.version}}
    retention = Settings.of(state.configuration).txn_retention
    oldest_ms = None if retention is None else snapshot.time_ns // NS_PER["ms"] - retention // _MS
    for applied in state.applied.values():
        if applied.ours or oldest_ms is None or applied.updated_ms is None or applied.updated_ms > oldest_ms:
            yield encode_action(_txn(applied))
    for domain in state.domains.values():
        yield encode_action(domain)
    for sidecar in sidecars:
        yield encode_sidecar(sidecar)


def _txn(applied: Applied) -> Txn:
    return replace(txn_of(applied.operation, applied.kind), updated_ms=applied.updated_ms)


def _tombstones(snapshot: Snapshot[TableState]) -> list[RemoveFile]:
    """Those whose files vacuum must keep yet; one that does not say when is as good as expired."""
    retention = Settings.of(snapshot.state.configuration).deleted_file_retention
    oldest_ms = snapshot.time_ns // NS_PER["ms"] - retention // _MS
    return [gone for gone in snapshot.state.removed.values() if (gone.deleted_ms or 0) > oldest_ms]


def _file_columns(state: TableState, adds: Sequence[AddFile], removes: Sequence[RemoveFile]) -> dict[str, pa.Array]:
    """`remove` and `add`, one under the other."""
    gone, live = remove_column(removes), add_column(adds, state.metadata)
    return {
        "remove": pa.concat_arrays([gone, pa.nulls(len(adds), gone.type)]),
        "add": pa.concat_arrays([pa.nulls(len(removes), live.type), live]),
    }


def _column(bodies: list[Any], type_: pa.StructType) -> pa.Array:
    return pa.array([pairs(body) for body in bodies], type_)


def _stacked(columns: dict[str, pa.Array], few: int) -> pa.Table:
    """The columns of the `few` first rows and those of the files, which come after them."""
    files = {name: column for name, column in columns.items() if name in ("add", "remove")}
    more = max((len(column) for column in files.values()), default=0)
    whole = {
        name: pa.concat_arrays([pa.nulls(few, column.type), column] if name in files else [column, pa.nulls(more, column.type)])
        for name, column in columns.items()
    }
    return pa.table(whole)


def _parquet(snapshot: Snapshot[TableState], table: pa.Table) -> bytes:
    about = {TIME_KEY: str(snapshot.time_ns // NS_PER["ms"]), VERSION_KEY: str(snapshot.version), SEAL_KEY: UNSEALED}
    sink = pa.BufferOutputStream()
    options: dict[str, Any] = {"compression": "snappy", "write_page_checksum": True}
    pq.write_table(table.replace_schema_metadata(about), sink, **options)
    return seal(bytes(sink.getvalue()))
