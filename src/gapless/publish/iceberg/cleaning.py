"""Metadata files that no snapshot names any more are removed: those of snapshots that left, and what publishers that died left behind."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Snapshot

from gapless.model.protocols import WRITER_HORIZON_NS, Store
from gapless.publish.iceberg.file_index import FILE_INDEX
from gapless.publish.iceberg.io import StoreIO
from gapless.publish.iceberg.manifests import manifests_of

EVERY = 50
"""Commits from one look for what was left behind to the next."""
_ID = "[0-9a-f-]{36}"
_WRITTEN = re.compile(rf"(?:m-{_ID}(?:-of-{_ID})?\.avro|snap-{_ID}\.avro|files-{_ID}\.json)", re.ASCII)
"""The names of manifests, their lists and indexes, as we give them."""


def clean_expired(io: StoreIO, before: TableMetadataV2, after: TableMetadataV2) -> None:
    """Remove what only snapshots named that have left the metadata by a commit. Raises StoreError, CorruptTable."""
    index = before.properties.get(FILE_INDEX)
    if index is not None and index != after.properties.get(FILE_INDEX):
        io.delete(_index(before))
    kept = {one.snapshot_id for one in after.snapshots}
    gone = [one for one in before.snapshots if one.snapshot_id not in kept]
    if not gone:
        return
    # A manifest is in all snapshots from the first to the last that has it; so what the oldest left behind the next one tells.
    first = before.snapshots[: len(gone)] == gone
    named = _named(io, after.snapshots[:1] + after.snapshots[-1:] if first else after.snapshots)
    for snapshot in gone:
        for manifest in manifests_of(io, snapshot.manifest_list):
            if manifest.manifest_path not in named:
                io.delete(manifest.manifest_path)
        io.delete(snapshot.manifest_list)


def clean_orphans(io: StoreIO, store: Store, metadata: TableMetadataV2, now_ns: int) -> None:
    """Remove manifests and lists that no snapshot names, and that are so old that no commit under way will. Raises StoreError, CorruptTable."""
    folder = io.path(f"{metadata.location.rstrip('/')}/metadata")
    if folder is None:
        return  # where the catalog wants it; not ours to look through
    old = [
        info.path
        for info in store.list(folder)
        if _WRITTEN.fullmatch(info.path.rpartition("/")[2]) and now_ns - info.modified_ns > WRITER_HORIZON_NS
    ]
    if not old:
        return
    named = _named(io, metadata.snapshots) | {one.manifest_list for one in metadata.snapshots} | {_index(metadata)}
    for path in old:
        if io.location(path) not in named:
            store.delete(path)


def _named(io: StoreIO, snapshots: Iterable[Snapshot]) -> set[str]:
    return {manifest.manifest_path for one in snapshots for manifest in manifests_of(io, one.manifest_list)}


def _index(metadata: TableMetadataV2) -> str:
    return f"{metadata.location.rstrip('/')}/metadata/{metadata.properties.get(FILE_INDEX)}"
