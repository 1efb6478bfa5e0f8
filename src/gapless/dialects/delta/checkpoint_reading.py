"""A checkpoint's objects as a snapshot: classic, in several pieces, or V2 (JSON or Parquet) with sidecars."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.dialects.delta.action_codec import decode_action
from gapless.dialects.delta.actions import Action, AddFile, RemoveFile, TableState
from gapless.dialects.delta.checkpoint_leaves import read_actions
from gapless.dialects.delta.checkpoint_rows import Rows, shelve_adds, shelve_removes, valid_rows
from gapless.dialects.delta.checkpoint_seal import SEAL_KEY, check_seal
from gapless.dialects.delta.commit_codec import DAMAGE, json_lines
from gapless.dialects.delta.draft import Draft
from gapless.dialects.delta.live import LiveFiles, Tombstones
from gapless.dialects.delta.sidecars import Sidecar, decode_sidecar, read_sidecars
from gapless.errors import CorruptTable, UnsupportedTable
from gapless.log.dialect import Snapshot, Stored
from gapless.log.requests import Drive
from gapless.model.instant import NS_PER

TIME_KEY, VERSION_KEY = "gapless.time_ms", "gapless.version"
"""Our entries of a checkpoint's key-value metadata: its commit's time, which the protocol has no place for, and its version."""
_ROWS = ("metaData", "protocol", "txn", "domainMetadata", "checkpointMetadata", "sidecar")
"""Actions of which a checkpoint has few."""
_ALL_STATS = ("partitionValues_parsed",)
_TEXT_FIRST = (*_ALL_STATS, "stats_parsed")
"""What is not read of file actions: statistics are, as columns, only where there are none as text."""
_UNUSED = ("stats", "tags", "extendedFileMetadata")
"""What is not read of tombstones."""
_MAPS = ("configuration", "tags", "partitionValues")


@dataclass(slots=True)
class _Contents:
    """What a checkpoint's objects say, one after the other."""

    version: int
    time_ms: int = 0
    actions: list[Action] = field(default_factory=list)
    adds: Rows = field(default_factory=list)
    removes: Rows = field(default_factory=list)
    sidecars: list[Sidecar] = field(default_factory=list)

    def take(self, name: str, body: dict[str, Any], path: str) -> None:
        """One action."""
        if name == "sidecar":
            self.sidecars.append(decode_sidecar(body))
        elif name == "checkpointMetadata":
            _check_version(body["version"], self.version)
        elif (action := decode_action(name, body, path)) is not None:
            self.actions.append(action)


def read_checkpoint(pieces: Sequence[bytes], stored: Stored, drive: Drive) -> Snapshot[TableState]:
    """The snapshot that a checkpoint's objects hold, its commit time 0 where they do not say it.

    Raises CorruptTable for what is damaged, or does not say what the table is; UnsupportedTable, StoreError.
    """
    try:
        contents = _Contents(stored.version)
        for path, data in zip(stored.paths, pieces, strict=True):
            if path.endswith(".json"):
                _read_json(data, path, contents)
            else:
                _read_parquet(data, path, contents)
        if contents.sidecars:
            for name, data in zip(contents.sidecars, drive(read_sidecars(contents.sidecars)), strict=True):
                _read_parquet(data, name.path, contents)
        return Snapshot(stored.version, contents.time_ms * NS_PER["ms"], _state_of(contents))
    except (UnsupportedTable, CorruptTable):
        raise
    except (pa.ArrowException, OSError, *DAMAGE) as error:
        raise CorruptTable(
            f"the log checkpoint {stored.paths[0]} cannot be read: {type(error).__name__}: {error}",
            why="It is torn or altered, or does not hold what a checkpoint must",
            fix="Remove it; the log is read without it where its commits are there",
            path=stored.paths[0],
        ) from error


def _read_json(data: bytes, path: str, contents: _Contents) -> None:
    for _, action in json_lines(data, path):
        ((name, body),) = action.items()
        contents.take(name, body, path)


def _read_parquet(data: bytes, path: str, contents: _Contents) -> None:
    file = pq.ParquetFile(
        pa.BufferReader(data), page_checksum_verification=True, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False
    )
    about = {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in (file.metadata.metadata or {}).items()
    }
    check_seal(data, about.get(SEAL_KEY))
    if (told := about.get(TIME_KEY)) is not None:
        contents.time_ms = int(told)
        _check_version(int(about[VERSION_KEY]), contents.version)
    table = read_actions(file, _unread(_TEXT_FIRST))
    if "add" in table.column_names and _needs_parsed(file.schema_arrow, table.column("add")):
        table = read_actions(file, _unread(_ALL_STATS))
    if SEAL_KEY not in about:
        # Values are made only when they are asked for, when it is too late for damage to be found.
        table.validate(full=True)
    for name in table.column_names:
        rows = valid_rows(table.column(name))
        if name == "add":
            contents.adds += rows
        elif name == "remove":
            contents.removes += rows
        else:
            for body in [body for piece in rows for body in piece.to_pylist()]:
                contents.take(name, {key: _as_map(key, value) for key, value in body.items()}, path)


def _needs_parsed(schema: pa.Schema, column: pa.ChunkedArray) -> bool:
    """Whether no file that is added has statistics as text, and there are some as columns."""
    at = column.type.get_field_index("stats")
    texts = at >= 0 and any(chunk.field(at).null_count < len(chunk) for chunk in column.chunks)
    return not texts and schema.field("add").type.get_field_index("stats_parsed") >= 0


def _unread(statistics: Collection[str]) -> dict[str, Collection[str]]:
    """The actions that are read, each with its fields that are not; of file actions those that `statistics` names, too."""
    return {"add": statistics, "remove": (*statistics, *_UNUSED), **dict.fromkeys(_ROWS, ())}


def _as_map(name: str, value: Any) -> Any:
    """A map, which Arrow gives as pairs."""
    return dict(value) if name in _MAPS and isinstance(value, list) else value


def _check_version(said: object, version: int) -> None:
    if said != version:
        raise ValueError(f"it says it is of version {said}")


def _state_of(contents: _Contents) -> TableState:
    draft = Draft.of(None)
    if contents.adds:
        draft.files = LiveFiles.on(shelve_adds(contents.adds))
    if contents.removes:
        gone = shelve_removes(contents.removes)
        draft.removed = Tombstones.on(gone)
        for key in gone:
            # A file that two writers spell in two ways may be in both; the log itself says that it is removed.
            if key in draft.files:
                del draft.files[key]
    for action in contents.actions:
        if not isinstance(action, AddFile | RemoveFile) or not contents.sidecars:
            draft.take(action)
    draft.files.sidecars = tuple(contents.sidecars)
    return draft.state()
