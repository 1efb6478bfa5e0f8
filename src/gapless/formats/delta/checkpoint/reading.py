"""Read Delta checkpoints: classic, multi-part, or V2 (JSON or Parquet) with sidecars.

Leaf columns of a Parquet checkpoint that no row needs are not read: most are of actions that no row has, and each costs its time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.delta.action_codec import decode_action
from gapless.formats.delta.actions import Action, AddFile, RemoveFile, TableState
from gapless.formats.delta.checkpoint.names import SEAL_KEY, Sidecar, check_seal, decode_sidecar, read_sidecars
from gapless.formats.delta.checkpoint.rows import Rows, lazy_adds, lazy_removes, valid_rows
from gapless.formats.delta.commit_codec import DAMAGE, json_lines
from gapless.formats.delta.replay import Draft, LiveFiles, Tombstones
from gapless.log.effects import Drive
from gapless.log.format import Snapshot, StoredCheckpoint
from gapless.model.instant import NS_PER


def read_actions(file: pq.ParquetFile, unread: Mapping[str, Collection[str]]) -> pa.Table:
    """The actions that `unread` names, each without the fields that it has of it.

    Of a struct that no row has, as its statistics say, one leaf is read; where that has it nevertheless, they were wrong, and all is read.
    """
    wanted = _leaves_to_read(file.metadata.schema, unread)
    absent = _absent(file.metadata, wanted)
    spared = {at for leaves in absent.values() for at in leaves[1:]}
    paths = {at: file.metadata.schema.column(at).path for at in wanted}
    table = file.read(columns=[path for at, path in paths.items() if at not in spared], use_threads=False)
    if all(_lacks(table, struct) for struct in absent):
        return table
    return file.read(columns=list(paths.values()), use_threads=False)


def _leaves_to_read(schema: pq.ParquetSchema, unread: Mapping[str, Collection[str]]) -> list[int]:
    """The numbers of the leaves of these actions, but for those in a field that is not read."""
    wanted = []
    for at in range(len(schema)):
        action, field, *_ = f"{schema.column(at).path}.".split(".")
        if action in unread and field not in unread[action]:
            wanted.append(at)
    return wanted


def _absent(metadata: pq.FileMetaData, wanted: Sequence[int]) -> dict[str, list[int]]:
    """The actions, and fields of others, of which statistics say that no row has them: their leaves, first one that shows it."""
    structs: dict[str, list[int]] = {}
    for at in wanted:
        action, *fields = metadata.schema.column(at).path.split(".")
        for struct in (action, f"{action}.{fields[0]}")[: len(fields)] if fields else ():
            structs.setdefault(struct, []).append(at)
    null = _null_leaves(metadata, wanted)
    absent: dict[str, list[int]] = {}
    for struct, leaves in structs.items():
        # A list or map that is empty looks like one that is not there.
        shows = next((at for at in leaves if not metadata.schema.column(at).max_repetition_level), None)
        if shows is not None and null.issuperset(leaves) and struct.partition(".")[0] not in absent:
            absent[struct] = [shows, *(at for at in leaves if at != shows)]
    return absent


def _null_leaves(metadata: pq.FileMetaData, of: Sequence[int]) -> set[int]:
    """Those of the leaves with these numbers that have no value in any row group, as their statistics say."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return {at for at in of if all(_is_null(group.column(at)) for group in groups)}


def _is_null(chunk: pq.ColumnChunkMetaData) -> bool:
    statistics = chunk.statistics
    return bool(statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values)


def _lacks(table: pa.Table, struct: str) -> bool:
    """Whether no row has an action, or a field of one; False where the table does not show it."""
    action, _, field = struct.partition(".")
    column = table.column(action)
    if field and column.type.get_field_index(field) < 0:
        return False
    found = pc.struct_field(column, [field]) if field else column
    return bool(found.null_count == len(found))


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


def read_checkpoint(pieces: Sequence[bytes], stored: StoredCheckpoint, drive: Drive) -> Snapshot[TableState]:
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
    if (time_ms := about.get(TIME_KEY)) is not None:
        contents.time_ms = int(time_ms)
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


def _check_version(found: object, version: int) -> None:
    if found != version:
        raise ValueError(f"it says it is of version {found}")


def _state_of(contents: _Contents) -> TableState:
    draft = Draft.of(None)
    if contents.adds:
        draft.files = LiveFiles.on(lazy_adds(contents.adds))
    if contents.removes:
        gone = lazy_removes(contents.removes)
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
