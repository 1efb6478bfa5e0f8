"""Delta actions, commits and the table state they make (PROTOCOL.md, "Actions")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from gapless.formats.delta.file_path import canonical
from gapless.formats.delta.schema.types import StructType
from gapless.model.operation import OperationId, Tally, operation_key, supersedes

Json = Any
"""What `json.loads` makes."""
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A count, as far as the log can say one; checked where it is decoded."""
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number of 64 bits; checked where it is decoded."""


class _FileAction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A log has very many of these, so they are no dataclasses: JSON is decoded to them as it is, and one is made in a tenth of the time.

    `msgspec.structs.replace` gives a changed copy.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Which readers and writers a table is for."""

    reader: int
    """minReaderVersion."""
    writer: int
    """minWriterVersion."""
    reader_features: frozenset[str] = frozenset()
    """Empty below reader version 3."""
    writer_features: frozenset[str] = frozenset()
    """Empty below writer version 7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a table is; the newest one holds."""

    id: str
    name: str | None = None
    description: str | None = None
    schema: StructType
    """Columns by their logical names, with the fields' own metadata."""
    partition_by: tuple[str, ...] = ()
    """Logical names."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Table properties, known and unknown ones: `delta.appendOnly` and the like."""
    created_ms: int | None = None


class DeletionVector(
    _FileAction,
    frozen=True,
    kw_only=True,
    gc=False,
    rename={"storage": "storageType", "path_or_inline": "pathOrInlineDv", "size": "sizeInBytes"},
):
    """Where the positions of a file's deleted rows are stored (PROTOCOL.md, "Deletion Vector Descriptor Schema")."""

    storage: str
    """"u": a file named by a UUID, "p": an absolute path, "i": inline."""
    path_or_inline: str
    offset: Number | None = None
    """Bytes from the start of its file."""
    size: Whole
    """Bytes of the bitmap."""
    cardinality: Whole
    """Rows that are deleted."""

    @property
    def id(self) -> str:
        """What tells it from other vectors of a file."""
        where = f"{self.storage}{self.path_or_inline}"
        return where if self.offset is None else f"{where}@{self.offset}"


_FILE_NAMES = {
    "partition_values": "partitionValues",
    "data_change": "dataChange",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
}
_ADD_NAMES = {**_FILE_NAMES, "modified_ms": "modificationTime", "clustering_provider": "clusteringProvider"}
_REMOVE_NAMES = {**_FILE_NAMES, "deleted_ms": "deletionTimestamp"}
"""The log's names of fields that have another here."""


class AddFile(_FileAction, frozen=True, kw_only=True, gc=False, rename=_ADD_NAMES):
    """A data file becomes part of the table, or is added again with another deletion vector."""

    path: str
    """Exactly as the log has it: percent-encoded, relative to the table root or absolute. `file_path.store_path` says where it lies."""
    partition_values: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    """Texts as the log has them, by physical names; see `partition_values`."""
    size: Whole
    """Bytes."""
    modified_ms: Number
    data_change: bool = True
    stats: str | None = None
    """JSON text, as the log has it."""
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Number | None = None
    default_row_commit_version: Number | None = None
    clustering_provider: str | None = None

    @property
    def key(self) -> str:
        """What names the logical file: its path and its deletion vector."""
        return file_key(self.path, self.deletion_vector)


class RemoveFile(_FileAction, frozen=True, kw_only=True, gc=False, rename=_REMOVE_NAMES):
    """A logical file is part of the table no more; its bytes stay for older versions until vacuum."""

    path: str
    """The same text, byte for byte, as the add's: other readers match on it."""
    deleted_ms: Number | None = None
    data_change: bool = True
    partition_values: Mapping[str, str | None] | None = None
    size: Number | None = None
    stats: str | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Number | None = None
    default_row_commit_version: Number | None = None

    @property
    def key(self) -> str:
        """What names the logical file: its path and its deletion vector."""
        return file_key(self.path, self.deletion_vector)

    @classmethod
    def of(cls, file: AddFile, deleted_ms: int, *, data_change: bool = True) -> RemoveFile:
        """The removal of a live file."""
        return cls(
            path=file.path,
            deleted_ms=deleted_ms,
            data_change=data_change,
            partition_values=file.partition_values,
            size=file.size,
            stats=file.stats,
            tags=file.tags,
            deletion_vector=file.deletion_vector,
            base_row_id=file.base_row_id,
            default_row_commit_version=file.default_row_commit_version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcFile:
    """A file of change rows; readers of the change feed take it instead of the commit's adds and removes."""

    path: str
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    size: int
    tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """The newest transaction of an application (`txn`)."""

    app_id: str
    version: int
    updated_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """A named text of a feature or a user; a removed one is a tombstone."""

    domain: str
    configuration: str
    removed: bool = False


Action = Protocol | Metadata | AddFile | RemoveFile | CdcFile | Txn | DomainMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One log entry, without its version and time."""

    id: str
    """`commitInfo.txnId`: unique per attempted change; empty for writers that give none."""
    operation: str
    """Delta's names: WRITE, DELETE, UPDATE, MERGE, OPTIMIZE, RESTORE, CREATE TABLE, SET TBLPROPERTIES, …"""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    """`operationMetrics`, whose values the log holds as texts."""
    blind_append: bool = False
    isolation: str = ""
    engine: str = ""
    read_version: int | None = None
    in_commit_time: bool = False
    """Whether its time is an in-commit timestamp, which comes first in the commit and is the commit's time for every reader."""
    duration_ms: int | None = None
    operation_id: OperationId | None = None
    """Ours, beside the `txn` that says it to others."""
    tally: Tally | None = None
    """What the change counted, for whoever sends it again."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """What features of Delta say of the commit."""
    source_version: int | None = None
    """The version of the table that it publishes (`gapless.version`); None for a commit that publishes none."""
    info: Mapping[str, Json] = field(default_factory=dict)
    """`commitInfo` as another writer left it; empty for ours."""
    actions: tuple[Action, ...] = ()

    @property
    def added(self) -> tuple[AddFile, ...]:
        """The files this commit makes live."""
        return tuple(action for action in self.actions if isinstance(action, AddFile))

    @property
    def removed(self) -> tuple[RemoveFile, ...]:
        """The files this commit takes away."""
        return tuple(action for action in self.actions if isinstance(action, RemoveFile))

    @property
    def change_files(self) -> tuple[CdcFile, ...]:
        """Its files of change rows."""
        return tuple(action for action in self.actions if isinstance(action, CdcFile))

    @property
    def txns(self) -> tuple[Txn, ...]:
        """The applications' transactions that it applied."""
        return tuple(action for action in self.actions if isinstance(action, Txn))

    @property
    def metadata(self) -> Metadata | None:
        """The metadata this commit sets, if it does."""
        return next((action for action in self.actions if isinstance(action, Metadata)), None)

    @property
    def protocol(self) -> Protocol | None:
        """The protocol this commit sets, if it does."""
        return next((action for action in self.actions if isinstance(action, Protocol)), None)

    @property
    def changes_rows(self) -> bool:
        """Whether a file in it comes or goes with its rows, and not only to lie otherwise."""
        return any(action.data_change for action in self.actions if isinstance(action, AddFile | RemoveFile))


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """An operation that was applied, as far as the log still says: of one known from a log checkpoint alone, only which and its kind."""

    operation: OperationId
    ours: bool = False
    """Whether gapless applied it, so that it is remembered for ever, whatever `delta.setTransactionRetentionDuration` says."""
    kind: str = ""
    """What kind of change it was, as `kind_of_change` says; empty where the log does not say it."""
    updated_ms: int | None = None
    version: int | None = None
    tally: Tally | None = None

    def tally_of(self, asked: OperationId) -> Tally:
        """What the operation asked for counted: nothing, where that is not known or this is a later sequence of its app."""
        return self.tally if self.tally is not None and self.operation == asked else Tally()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A Delta table at one version."""

    protocol: Protocol
    metadata: Metadata
    files: Mapping[str, AddFile] = field(default_factory=dict)
    """Live files by `key`, in the order they became live."""
    removed: Mapping[str, RemoveFile] = field(default_factory=dict)
    """Tombstones by `key`, as far as their retention goes."""
    applied: Mapping[str, Applied] = field(default_factory=dict)
    """By `operation_key`: the highest version of each application, and every job of ours."""
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    """By name, without those that were removed."""

    def recognise(self, operation: OperationId) -> Applied | None:
        """The operation, or the app's higher sequence, if this or a later one was applied."""
        known = self.applied.get(operation_key(operation))
        return known if known is not None and supersedes(known.operation, operation) else None

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.configuration


def file_key(path: str, vector: DeletionVector | None) -> str:
    """What names a logical file (PROTOCOL.md, "Action Reconciliation"), however its path is spelled; no path holds a NUL."""
    where = canonical(path)
    return where if vector is None else f"{where}\0{vector.id}"


def file_keys(files: Sequence[AddFile]) -> list[str]:
    """The `key` of each."""
    paths = [file.path for file in files]
    lines = "\n".join(["", *paths])
    own = not ("%" in lines or ":" in lines or "\n/" in lines)  # a line feed in a path only makes it look closer
    return paths if own and not any(file.deletion_vector for file in files) else [file.key for file in files]
