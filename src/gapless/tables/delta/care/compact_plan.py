"""Plan OPTIMIZE of a Delta table: which data files are written together, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gapless.files.sort.curve_sort import Curve
from gapless.formats.delta.actions import AddFile
from gapless.formats.delta.stats_codec import rows_of
from gapless.tables.shared.compaction import FileBin
from gapless.tables.shared.compaction_plan import plan_text

LAYOUT_ID, LAYOUT_COLUMNS, LAYOUT_CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
"""Tags of files that lie along one curve, by Delta's names."""

Partition = tuple[tuple[str, str | None], ...]
"""Partition values as the log has them."""


Cause = Literal["small", "deleted rows", "asked for"]
"""Why a file is written again."""
Rest = Literal["large enough", "alone", "outside the filter"]
"""Why a file is left as it is."""
_RESTS: dict[Rest, str] = {
    "large enough": "large enough as they are",
    "alone": "small, but with no other small one of the partition to go with",
    "outside the filter": "that cannot hold a row for which `where` is true",
}


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
    def rows(self) -> int | None:
        """Rows that are not deleted; None where a file's statistics do not say how many it has."""
        found = [_live_rows(file) for file in self.files]
        return None if None in found else sum(rows for rows in found if rows is not None)

    @property
    def causes(self) -> Mapping[Cause, int]:
        """Why, with how many of its files each cause holds for."""
        return Counter(self._cause(file) for file in self.files)

    def _cause(self, file: AddFile) -> Cause:
        return "asked for" if self.forced else "deleted rows" if file.deletion_vector is not None else "small"

    @property
    def purges(self) -> bool:
        """Whether a file has rows that are deleted, or must be another, so that it is written anew even alone."""
        return self.forced or any(file.deletion_vector is not None for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCompactionPlan:
    """Which files a compaction would write together, and which it would leave."""

    bins: tuple[DeltaBin, ...]
    """Each with `paths`, `size` in bytes of Parquet, `rows` and `causes`: "small", "deleted rows"."""
    left: Mapping[str, Rest]
    """The other files, by path, with why they stay: "large enough", "alone", "outside the filter"."""
    target_size: int
    """Bytes of Parquet that a file shall have."""

    @property
    def files(self) -> int:
        """How many files would be replaced."""
        return sum(len(one.files) for one in self.bins)

    @property
    def size(self) -> int:
        """Bytes of Parquet that would be read."""
        return sum(one.size for one in self.bins)

    def explain(self) -> str:
        """The plan in words, a line for each bin and for each reason to leave files alone."""
        return plan_text(self.bins, self.left, self.target_size, noun="file", rests=_RESTS)


def plan_compaction(files: Iterable[AddFile], selected: Collection[AddFile], target_size: int) -> DeltaCompactionPlan:
    """What packing the `selected` ones of a version's live files would do; `target_size` is in bytes of Parquet."""
    bins = plan_packing(selected, target_size)
    taken = {key for one in bins for key in one.keys}
    wanted = {file.key for file in selected}
    left = {file.path: _rest(file, wanted, target_size) for file in files if file.key not in taken}
    return DeltaCompactionPlan(bins=bins, left=left, target_size=target_size)


def _rest(file: AddFile, wanted: Collection[str], target_size: int) -> Rest:
    if file.key not in wanted:
        return "outside the filter"
    return "alone" if is_small(file, target_size) else "large enough"


def is_small(file: AddFile, target_size: int) -> bool:
    """Whether a file has less than half of the bytes that one shall have."""
    return 2 * file.size < target_size


def _live_rows(file: AddFile) -> int | None:
    rows = rows_of(file.stats)
    return None if rows is None else rows - (file.deletion_vector.cardinality if file.deletion_vector is not None else 0)


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
        if not is_small(file, target_size) and file.deletion_vector is None:
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
