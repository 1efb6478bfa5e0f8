"""Which manifest names which file, kept beside the manifests: so a process that has read none finds a file's without reading them all.

The index is a hint that the table's property `gapless.file-index` names. It has a digest of the location of each file of the manifests that
were written large, and is written again when there are more of these. One that was written anew without some files goes by the entry of
what it was made of, whose name is in its own. Other manifests are read, and all where there is no index.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import xxhash

from gapless.errors import ObjectNotFound
from gapless.publish.iceberg.io import StoreIO

FILE_INDEX = "gapless.file-index"
"""Among the table's properties: where the index lies, by its name in the metadata's folder."""
_NAME = re.compile(r"m-(?P<own>[0-9a-f-]{36})(?:-of-(?P<origin>[0-9a-f-]{36}))?\.avro", re.ASCII)
_VERSION = 1
Digests = npt.NDArray[np.uint32]


def origin_of(manifest_path: str) -> str | None:
    """What the index calls a manifest: the first of those that it was made of by removals; None for another writer's."""
    match = _NAME.fullmatch(manifest_path.rpartition("/")[2])
    return None if match is None else match["origin"] or match["own"]


def digests(locations: Iterable[str]) -> Digests:
    """Of files by their locations; two may have one."""
    return np.fromiter((xxhash.xxh3_64_intdigest(one.encode()) & 0xFFFFFFFF for one in locations), np.uint32)


@dataclass(slots=True)
class FileIndex:
    """Digests of the files of manifests, by origin."""

    of: dict[str, Digests] = field(default_factory=dict)

    def may_hold(self, manifest_path: str, wanted: Digests) -> bool | None:
        """Whether a manifest may name one of these files; None where the index does not say."""
        known = self.of.get(origin_of(manifest_path) or "")
        return None if known is None else bool(np.isin(wanted, known).any())

    def encode(self) -> bytes:
        """As JSON: each origin with its digests, 4 bytes each, the lowest first, as base64."""
        told = {origin: b64encode(found.astype("<u4").tobytes()).decode() for origin, found in self.of.items()}
        return json.dumps({"version": _VERSION, "manifests": told}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> FileIndex:
        """Raises ValueError for what is no index."""
        told = json.loads(data)
        if not isinstance(told, Mapping) or told.get("version") != _VERSION:
            raise ValueError("no index of files")
        found = {origin: np.frombuffer(b64decode(text), "<u4") for origin, text in told["manifests"].items()}
        return cls(of=found)


def read_index(io: StoreIO, location: str) -> FileIndex:
    """An index; an empty one where there is none that can be read. Raises StoreError."""
    try:
        with io.new_input(location).open() as stream:
            return FileIndex.decode(stream.read())
    except (ObjectNotFound, FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return FileIndex()
