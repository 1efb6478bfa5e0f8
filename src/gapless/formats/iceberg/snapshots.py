"""What a commit is to readers of Iceberg, which snapshots stay, and which manifests become one. Pure (the table spec, "Snapshots")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Operation = Literal["append", "replace", "overwrite", "delete"]

SOURCE_VERSION = "gapless.version"
"""In a snapshot's summary and among the table's properties: the version of the table that is described."""
MOST_SNAPSHOTS = 50
"""Readers and writers take in the metadata of all snapshots at once."""
MANIFEST_ENTRIES = 500
"""Files that a manifest names at most, where it is made of others: a removal writes all of one anew."""
_FACTOR = 32
"""So many manifests of about one size become one: each file is named anew twice until it lies in a large one."""


def operation_of(*, adds: bool, removes: bool, changes_rows: bool) -> Operation:
    """What readers of changes are to take a commit for: they go on over `replace`, which says that rows are the same."""
    if not changes_rows or not (adds or removes):
        return "replace"
    if not removes:
        return "append"
    return "overwrite" if adds else "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A snapshot that the metadata has."""

    snapshot_id: int
    version: int | None
    """The version that it describes; None where another writer made it."""


def expired(snapshots: Sequence[Described], earliest: int, kept_versions: Iterable[int] = ()) -> list[int]:
    """The ids of the snapshots, oldest first, that leave the metadata when one more comes: the newest of them are kept, but those of versions
    below `earliest`, whose files may be gone; `kept_versions` are there still.
    """
    kept, at_most = frozenset(kept_versions), MOST_SNAPSHOTS - 1
    gone = [one.snapshot_id for one in snapshots[: max(0, len(snapshots) - at_most)]]
    left = snapshots[len(gone) :]
    return gone + [
        one.snapshot_id for one in left if one.version is not None and one.version < earliest and one.version not in kept
    ]


def merged(sizes: Sequence[int]) -> list[list[int]]:
    """Which manifests become one, as places in a list of their numbers of live files; each group is of about one size.

    >>> merged([1] * 31), [len(group) for group in merged([500] + [1] * 32)]
    ([], [32])
    """
    tiers: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        if size < MANIFEST_ENTRIES // 2:
            tiers.setdefault(_tier(size), []).append(place)
    return [group for places in tiers.values() if len(places) >= _FACTOR for group in _groups(places, sizes)]


def _tier(size: int) -> int:
    tier = 0
    while size >= _FACTOR:
        size, tier = size // _FACTOR, tier + 1
    return tier


def _groups(places: Iterable[int], sizes: Sequence[int]) -> list[list[int]]:
    """Places in order, as many together as a manifest takes."""
    groups: list[list[int]] = [[]]
    held = 0
    for place in places:
        if groups[-1] and held + sizes[place] > MANIFEST_ENTRIES:
            groups.append([])
            held = 0
        groups[-1].append(place)
        held += sizes[place]
    return [group for group in groups if len(group) > 1]
