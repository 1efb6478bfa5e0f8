"""Object names in `_delta_log`, the `_last_checkpoint` hint, and the sidecars of V2 checkpoints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import xxhash

from gapless.errors import CorruptTable
from gapless.formats.delta.actions import Json
from gapless.log.effects import Concurrently, Conversation, Get, perform
from gapless.log.format import PartName, StoredCheckpoint

LOG_FOLDER = "_delta_log"
SIDECARS_FOLDER = f"{LOG_FOLDER}/_sidecars"
_MOST_PARTS = 100_000
"""A hint that names a checkpoint of more parts is taken to be damaged."""
_COMMIT = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\.json")
_CHECKPOINT = re.compile(
    rf"{LOG_FOLDER}/(?P<version>\d{{20}})\.checkpoint"
    r"(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<uuid>[0-9a-fA-F-]{36})(?=\.json|\.parquet))?\.(?P<kind>parquet|json)"
)
_ASIDE = re.compile(rf"{LOG_FOLDER}/(?:(\d{{20}})\.crc|\.(\d{{20}})\.[^/]+\.crc|(\d{{20}})\.\d{{20}}\.compacted\.json)")
_SIDECAR = re.compile(rf"{SIDECARS_FOLDER}/(\d{{20}})\.[^/]+\.parquet")


def commit_path(version: int) -> str:
    """`_delta_log/00000000000000000007.json` for version 7."""
    return f"{LOG_FOLDER}/{version:020d}.json"


def version_of(path: str) -> int | None:
    """The version whose commit a path holds; None for any other object."""
    match = _COMMIT.fullmatch(path)
    return int(match[1]) if match else None


def checkpoint_path(version: int) -> str:
    """`_delta_log/00000000000000000100.checkpoint.parquet` for version 100."""
    return f"{LOG_FOLDER}/{version:020d}.checkpoint.parquet"


def checkpoint_of(path: str) -> int | None:
    """The version whose checkpoint, or piece of one, a path holds; None for any other object."""
    match = _match(path)
    return int(match["version"]) if match else None


def checkpoints_in(names: Iterable[str]) -> list[StoredCheckpoint]:
    """The whole checkpoints in a listing, oldest version first; of one version those of one object last, which are looked at first."""
    whole: list[tuple[int, bool, StoredCheckpoint]] = []
    pieces: dict[tuple[int, int], dict[int, str]] = {}
    for name in names:
        match = _match(name)
        if match is None:
            continue
        version = int(match["version"])
        if match["parts"] is None:
            whole.append((version, True, StoredCheckpoint(version, (name,))))
        else:
            pieces.setdefault((version, int(match["parts"])), {})[int(match["part"])] = name
    for (version, parts), found in pieces.items():
        if sorted(found) == list(range(1, parts + 1)):
            whole.append((version, False, StoredCheckpoint(version, tuple(found[part] for part in sorted(found)), parts)))
    return [stored for _, _, stored in sorted(whole, key=lambda one: (one[0], one[1], one[2].paths))]


def auxiliary_of(path: str) -> int | None:
    """The version with whose commit an object goes: a version checksum, the checksum file that Hadoop lays beside each file on a disk, or a
    log compaction file, that one with the commit before its first.
    """
    match = _ASIDE.fullmatch(path)
    if match is None:
        return None
    checksum = match[1] or match[2]
    return int(match[3]) - 1 if checksum is None else int(checksum)


def checksum_path(path: str) -> str:
    """Where Hadoop has the checksum of a file on a disk: `_delta_log/._last_checkpoint.crc`."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def sidecar_path(version: int, number: int, count: int, token: str) -> str:
    """Where sidecar `number` of `count` (from 1) of a checkpoint lies; `token` makes the name unique."""
    return f"{SIDECARS_FOLDER}/{version:020d}.checkpoint.{number:010d}.{count:010d}.{token}.parquet"


def sidecar_of(path: str) -> int | None:
    """The version for whose checkpoint a sidecar was written, where its name says it; None for any other object."""
    match = _SIDECAR.fullmatch(path)
    return int(match[1]) if match else None


def decode_pointer(data: bytes) -> StoredCheckpoint | None:
    """The checkpoint that `_last_checkpoint` names; None where its bytes are damaged or name none."""
    try:
        return _pointed(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _pointed(body: Any) -> StoredCheckpoint | None:
    version, parts = body["version"], body.get("parts")
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        return None
    if (v2 := body.get("v2Checkpoint")) is not None:
        path = f"{LOG_FOLDER}/{v2['path'].rpartition('/')[2]}"
        return StoredCheckpoint(version, (path,)) if checkpoint_of(path) == version else None
    if parts is None or parts == 1:
        return StoredCheckpoint(version, (checkpoint_path(version),))
    if not 1 <= parts <= _MOST_PARTS:
        return None
    stem = f"{LOG_FOLDER}/{version:020d}.checkpoint"
    paths = tuple(f"{stem}.{part:010d}.{parts:010d}.parquet" for part in range(1, parts + 1))
    return StoredCheckpoint(version, paths, parts)


def encode_pointer(version: int, actions: int, files: int, size: int) -> bytes:
    """`_last_checkpoint` for a checkpoint of one object: how many actions and files it holds, and its bytes."""
    return json.dumps({"version": version, "size": actions, "sizeInBytes": size, "numOfAddFiles": files}).encode()


def _match(path: str) -> re.Match[str] | None:
    match = _CHECKPOINT.fullmatch(path)
    # Only a checkpoint named by a UUID may be JSON.
    return match if match is not None and (match["kind"] == "parquet" or match["uuid"] is not None) else None


FILES_FROM = 5_000
"""A V2 checkpoint of so many live files and tombstones, or more, has them in sidecars."""
FILES_EACH = 50_000
"""File actions of one sidecar at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """An object that holds file actions of a checkpoint."""

    path: str
    """Relative to the table root."""
    size: int
    """Bytes."""
    modified_ms: int

    @property
    def part(self) -> PartName:
        """As the engine knows it; the protocol has no checksum."""
        return PartName(self.path, "")


def decode_sidecar(body: Mapping[str, Json]) -> Sidecar:
    """`sidecar`."""
    name = unquote(str(body["path"])).rpartition("/")[2]
    return Sidecar(path=f"{SIDECARS_FOLDER}/{name}", size=body["sizeInBytes"], modified_ms=body.get("modificationTime") or 0)


def encode_sidecar(sidecar: Sidecar) -> dict[str, Json]:
    """`sidecar`, by its name alone."""
    name = sidecar.path.rpartition("/")[2]
    return {"sidecar": {"path": name, "sizeInBytes": sidecar.size, "modificationTime": sidecar.modified_ms}}


def read_sidecars(names: Sequence[Sidecar]) -> Conversation[tuple[bytes, ...]]:
    """The bytes of sidecars. Raises CorruptTable where one is missing, StoreError."""
    found = yield from perform(Concurrently(tuple(Get(name.path) for name in names)))
    for name, data in zip(names, found, strict=True):
        if data is None:
            raise CorruptTable(
                f"the sidecar {name.path} of a log checkpoint is missing",
                why="Someone deleted it, or the checkpoint was copied without it",
                fix="Bring the file back from a backup; the log is read without the checkpoint where its commits are there",
                path=name.path,
            )
    return found


SEAL_KEY = "gapless.checksum"
UNSEALED = "gapless-checksum-stands-here-128"
"""What stands for the checksum while it is taken: as long as one is."""


def seal(data: bytes) -> bytes:
    """The same Parquet with its checksum in the place of `UNSEALED`."""
    at = data.rindex(UNSEALED.encode())
    return b"".join((data[:at], xxhash.xxh3_128_hexdigest(data).encode(), data[at + len(UNSEALED) :]))


def check_seal(data: bytes, checksum: str | None) -> None:
    """Raise ValueError where the bytes are not those that were sealed with `checksum`; another writer's have none."""
    if checksum is None:
        return
    at = data.rfind(checksum.encode())
    if (
        len(checksum) != len(UNSEALED)
        or xxhash.xxh3_128_hexdigest(data[:at] + UNSEALED.encode() + data[at + len(checksum) :]) != checksum
    ):
        raise ValueError("it does not have the bytes that it was written with")
