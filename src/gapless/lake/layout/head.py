"""`head.json` of a copy of a lake: which manifests it has as of the last push or pull that ended, so that nobody reads half of one. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gapless.lake.layout.manifest import FORMAT, check_format, damaged, load_sealed
from gapless.tables.shared.prepared import sealed

HEAD = "head.json"
"""A lake that has it is a copy: runs do not write into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHead:
    """What a copy has of one table."""

    manifests: Mapping[str, str]
    """The digest of each manifest, of runs and snapshots, by its path below the lake's root."""
    log_version: int | None = None
    """The newest version of its own log, where the table has one."""

    def union(self, other: TableHead) -> TableHead:
        """What either has."""
        versions = [one for one in (self.log_version, other.log_version) if one is not None]
        return TableHead(manifests={**self.manifests, **other.manifests}, log_version=max(versions, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The state of a copy."""

    lake: str
    """The id of the lake."""
    number: int
    """Of the push that made the state: larger than that of every push before it into the same place."""
    time_ns: int
    """When the state was copied from the lake that runs write into, nanoseconds since 1970 UTC by the clock of who copied."""
    node: str
    """Who pushed."""
    tables: Mapping[str, TableHead]
    source: str | None = None
    """Where the copy was pulled from, without credentials; None for one that is pushed to."""
    snapshots: Mapping[str, str] = field(default_factory=dict)
    """Tables of which only one snapshot is here, and its name."""
    lacking: Sequence[str] = ()
    """Tables that the place it was pulled from had, and this copy has not."""
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Tables of which only these partitions of the newest snapshot are here: folders, with all in them."""

    def encode(self) -> bytes:
        """The document, with its checksum."""
        return sealed({
            "format": FORMAT,
            "lake": self.lake,
            "number": self.number,
            "time_ns": self.time_ns,
            "node": self.node,
            "source": self.source,
            "snapshots": dict(sorted(self.snapshots.items())),
            "lacking": sorted(self.lacking),
            **({"partitions": {name: sorted(one) for name, one in sorted(self.partitions.items())}} if self.partitions else {}),
            "tables": {
                name: {"manifests": dict(sorted(one.manifests.items())), "log_version": one.log_version}
                for name, one in sorted(self.tables.items())
            },
        }).encode()  # fmt: skip


def decode_head(data: bytes) -> Head:
    """Read it. Raises CorruptTable, UnsupportedTable."""
    body = load_sealed(data, HEAD)
    try:
        check_format(body, HEAD)
        return Head(
            lake=str(body["lake"]),
            number=int(body["number"]),
            time_ns=int(body["time_ns"]),
            node=str(body["node"]),
            source=body["source"],
            snapshots=dict(body["snapshots"]),
            lacking=tuple(body["lacking"]),
            partitions={str(name): tuple(map(str, one)) for name, one in body.get("partitions", {}).items()},
            tables={str(name): _table(one) for name, one in body["tables"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(HEAD, f"{type(error).__name__}: {error}") from error


def _table(body: Mapping[str, Any]) -> TableHead:
    return TableHead(manifests=dict(body["manifests"]), log_version=body["log_version"])


def digest(data: bytes) -> str:
    """What names the bytes of a manifest in a head."""
    return hashlib.sha256(data).hexdigest()
