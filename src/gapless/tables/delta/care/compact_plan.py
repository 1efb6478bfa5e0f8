"""Plan OPTIMIZE of a Delta table: which data files are written together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gapless.files.sort.curve_sort import Curve
from gapless.formats.delta.actions import AddFile
from gapless.tables.shared.compaction import FileBin

LAYOUT_ID, LAYOUT_COLUMNS, LAYOUT_CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
"""Tags of files that lie along one curve, by Delta's names."""

Partition = tuple[tuple[str, str | None], ...]
"""Partition values as the log has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOrder:
    """Along which curve rows shall lie."""

    columns: tuple[str, ...]
    curve: Curve

    def tags(self, layout_id: str) -> dict[str, str]:
        """What says that files lie so; `layout_id` is shared by those that were written together."""
        name = "zorder" if self.curve == "z" else self.curve
        return {LAYOUT_ID: layout_id, LAYOUT_COLUMNS: ",".join(self.columns), LAYOUT_CURVE: name}

    def holds(self, files: Collection[AddFile]) -> bool:
        """Whether files lie so already, all of them along one and the same curve, and are without deleted rows."""
        if any(file.deletion_vector is not None or not file.tags for file in files):
            return False
        tags = [file.tags or {} for file in files]
        return all(one == {**one, **self.tags(tags[0].get(LAYOUT_ID, ""))} for one in tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaBin(FileBin[AddFile]):
    """Files of one partition that are written together as others."""

    forced: bool = False
    """Whether it is written anew though nothing is saved by that."""

    @property
    def keys(self) -> frozenset[str]:
        """What names the logical files."""
        return frozenset(file.key for file in self.files)

    @property
    def purges(self) -> bool:
        """Whether a file has rows that are deleted, or must be another, so that it is written anew even alone."""
        return self.forced or any(file.deletion_vector is not None for file in self.files)


def plan_packing(files: Iterable[AddFile], target_size: int) -> tuple[DeltaBin, ...]:
    """Bins of small files, in their order, partition by partition: each begins a new one once it has `target_size` bytes.

    Small is what has less than half of that; files with a deletion vector of any size are taken too, even alone. A bin of several files
    makes fewer of them.
    """
    found = (one for together in _by_partition(files).values() for one in _packed(together, target_size))
    return tuple(one for one in found if len(one.files) > 1 or one.purges)


def _packed(files: Iterable[AddFile], target_size: int) -> Iterator[DeltaBin]:
    """Bins of one partition's small files, the last of which may have few."""
    some, size = list[AddFile](), 0
    for file in files:
        if 2 * file.size >= target_size and file.deletion_vector is None:
            continue
        some.append(file)
        size += file.size
        if size >= target_size:
            yield DeltaBin(files=tuple(some))
            some, size = [], 0
    yield DeltaBin(files=tuple(some))


def plan_curve(files: Iterable[AddFile], order: CurveOrder) -> tuple[DeltaBin, ...]:
    """A bin for each partition whose files do not lie along the curve yet."""
    return tuple(DeltaBin(files=tuple(some)) for some in _by_partition(files).values() if not order.holds(some))


def _by_partition(files: Iterable[AddFile]) -> Mapping[Partition, list[AddFile]]:
    found: dict[Partition, list[AddFile]] = {}
    for file in files:
        found.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    return found
