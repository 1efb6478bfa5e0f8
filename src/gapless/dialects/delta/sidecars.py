"""The sidecars of V2 checkpoints: Parquet files that hold their file actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from gapless.dialects.delta.actions import Json
from gapless.dialects.delta.checkpoint_names import SIDECARS_FOLDER
from gapless.errors import CorruptTable
from gapless.log.dialect import PartName
from gapless.log.requests import Get, Talk, Together, ask

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


def read_sidecars(names: Sequence[Sidecar]) -> Talk[tuple[bytes, ...]]:
    """The bytes of sidecars. Raises CorruptTable where one is missing, StoreError."""
    found = yield from ask(Together(tuple(Get(name.path) for name in names)))
    for name, data in zip(names, found, strict=True):
        if data is None:
            raise CorruptTable(
                f"the sidecar {name.path} of a log checkpoint is missing",
                why="Someone deleted it, or the checkpoint was copied without it",
                fix="Bring the file back from a backup; the log is read without the checkpoint where its commits are there",
                path=name.path,
            )
    return found
