"""A Delta log in a dict, written commit by commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from gapless.formats.delta.actions import Action, AddFile, Commit, DeletionVector, Metadata, Protocol, RemoveFile, TableState
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.log.format import Snapshot
from gapless.log.snapshot import load, write_checkpoint
from gapless.runtime.environment import Environment
from gapless.testing.store.stores import DictStore

MS = 1_000_000
DAY_MS = 86_400_000
START_MS = 1_767_225_600_000
SCHEMA = StructType(
    fields=(StructField(name="id", type=PrimitiveType("long")), StructField(name="v", type=PrimitiveType("string")))
)
PROTOCOL = Protocol(reader=1, writer=2)
V2 = Protocol(reader=3, writer=7, reader_features=frozenset({"v2Checkpoint"}), writer_features=frozenset({"v2Checkpoint"}))


def vector(offset: int) -> DeletionVector:
    return DeletionVector(storage="u", path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=offset, size=36, cardinality=2)


def add(path: str, dv: int | None = None, **other: Any) -> AddFile:
    return AddFile(path=path, size=10, modified_ms=START_MS, deletion_vector=None if dv is None else vector(dv), **other)


def remove(path: str, dv: int | None = None, at_ms: int = START_MS) -> RemoveFile:
    return RemoveFile.of(add(path, dv), at_ms)


@dataclass
class Log:
    """A table without data files."""

    configuration: Mapping[str, str] = field(default_factory=dict)
    protocol: Protocol = PROTOCOL
    store: DictStore = field(default_factory=DictStore)
    version: int = -1
    time_ms: int = START_MS

    def __post_init__(self) -> None:
        metadata = Metadata(id="t", schema=SCHEMA, configuration=self.configuration, created_ms=START_MS)
        self.land(self.protocol, metadata)

    @property
    def env(self) -> Environment:
        return Environment(store=self.store)

    def land(self, *actions: Action, **info: Any) -> int:
        """One commit, a second after the one before."""
        self.version, self.time_ms = self.version + 1, self.time_ms + 1_000
        commit = Commit(id=f"c{self.version}", operation="TEST", actions=actions, **info)
        self.store.put(DELTA.path_of(self.version), DELTA.encode(commit, self.version, self.time_ms * MS))
        return self.version

    def write(self, name: str, lines: Iterable[Mapping[str, Any]] | bytes) -> None:
        """An object of the log folder, as it is given."""
        data = lines if isinstance(lines, bytes) else "\n".join(map(json.dumps, lines)).encode()
        self.store.put(f"_delta_log/{name}", data, mode="overwrite")

    def read(self, name: str) -> bytes:
        return self.store.get(f"_delta_log/{name}")

    def drop(self, *versions: int) -> None:
        for version in versions:
            self.store.delete(DELTA.path_of(version))

    def load(self, at: int | None = None) -> Snapshot[TableState]:
        found = self.env.drive(load(DELTA, at))
        assert found is not None
        return found

    def checkpoint(self, at: int | None = None) -> Snapshot[TableState]:
        """Write one, which replaces another's."""
        snapshot = self.load(at)
        self.store.delete(DELTA.checkpoint_path(snapshot.version))
        self.env.drive(write_checkpoint(DELTA, snapshot))
        return snapshot

    def names(self) -> list[str]:
        return [info.path.removeprefix("_delta_log/") for info in self.store.list("_delta_log")]


def told(state: TableState) -> dict[str, Any]:
    """What a state says, of which a log checkpoint keeps all."""
    return {
        "protocol": state.protocol,
        "metadata": state.metadata,
        "files": {key: structs.replace(file, data_change=False) for key, file in state.files.items()},
        "removed": {
            key: structs.replace(file, data_change=False, stats=None, tags=None) for key, file in state.removed.items()
        },
        "applied": {key: (known.operation, known.updated_ms) for key, known in state.applied.items()},
        "domains": dict(state.domains),
    }
