"""One side of a sync: what lies of a lake in a directory or a bucket, as its head says where it has one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from gapless.errors import CorruptTable, ObjectNotFound
from gapless.lake.layout.head import HEAD, Head, TableHead, decode_head, digest
from gapless.lake.layout.manifest import MANIFEST, Manifest, decode
from gapless.lake.layout.settings import TableHistory, history_path, read_history
from gapless.lake.layout.snapshots import Snapshot, decode_snapshot
from gapless.runtime.environment import Environment

CONFIG = "lake.toml"
Document = TypeVar("Document", Manifest, Snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The manifests of a table on one side, with the bytes as they lie there."""

    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    """Of runs, by path below the lake's root."""
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    """By name."""
    data: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """By path."""

    def head(self, log_version: int | None) -> TableHead:
        """What a copy with all of it has."""
        return TableHead(manifests={path: digest(data) for path, data in self.data.items()}, log_version=log_version)

    def union(self, other: Contents) -> Contents:
        """What either has."""
        return Contents(
            manifests={**self.manifests, **other.manifests},
            snapshots={**self.snapshots, **other.snapshots},
            data={**self.data, **other.data},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A place of a lake."""

    env: Environment
    head: Head | None = None

    @classmethod
    def at(cls, env: Environment) -> Side:
        """What lies there now. Raises CorruptTable, UnsupportedTable, StoreError."""
        return cls(env=env, head=read_head(env))

    @property
    def url(self) -> str:
        """Where it is."""
        return self.env.store.url

    def object(self, path: str) -> bytes | None:
        """An object; None where there is none. Raises StoreError."""
        try:
            return self.env.store.get(path)
        except ObjectNotFound:
            return None

    def config(self) -> bytes | None:
        """Its `lake.toml`; None where it is no lake yet."""
        return self.object(CONFIG)

    def history(self, table: str) -> bytes | None:
        """The bytes of a table's history; None where it has no such table."""
        return self.object(history_path(table))

    def contents(self, table: str, known: Contents | None = None) -> Contents:
        """The manifests that are whole, and named by the head where there is one. Documents that the head says are the same as `known` ones are
        not read. Raises UnsupportedTable, StoreError.
        """
        named = None if self.head is None else self.head.tables.get(table, TableHead(manifests={})).manifests
        manifests, snapshots, data = dict[str, Manifest](), dict[str, Snapshot](), dict[str, bytes]()
        folder = f"tables/{table}/data"
        for info in self.env.store.list(folder):
            path = info.path
            if not path.endswith(f"/{MANIFEST}") or (named is not None and path not in named):
                continue
            same = None if known is None or named is None else known.data.get(path)
            body = same if same is not None and named is not None and digest(same) == named[path] else self.object(path)
            if body is None:
                continue
            try:
                if path.startswith(f"{folder}/runs/"):
                    manifests[path] = decode(body, path)
                elif path.count("/") == folder.count("/") + 2:
                    snapshot = decode_snapshot(body, path)
                    snapshots[snapshot.name] = snapshot
                else:
                    continue
            except CorruptTable:
                continue  # torn: as if it were not there
            data[path] = body
        return Contents(manifests=manifests, snapshots=snapshots, data=data)


def read_head(env: Environment) -> Head | None:
    """The head of a copy; None for a lake that runs write into. Raises CorruptTable, UnsupportedTable, StoreError."""
    try:
        return decode_head(env.store.get(HEAD))
    except ObjectNotFound:
        return None


def lake_id(config: bytes) -> str | None:
    """The id that a `lake.toml` says; None where it cannot be read."""
    try:
        return str(tomllib.loads(config.decode())["lake"]["id"])
    except (ValueError, KeyError, TypeError):
        return None


def history_of(data: bytes, table: str) -> TableHistory:
    """A history as it is read. Raises CorruptTable, UnsupportedTable."""
    return read_history(data, table)
