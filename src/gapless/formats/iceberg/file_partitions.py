"""Partitions of files that were written without them: which one a file lies in, as far as its bounds prove it. Pure (the table spec, "Partitioning")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gapless.formats.iceberg.schema import JsonObject
from gapless.model.instant import NS_PER, NS_PER_DAY
from gapless.model.publishing import PartitionField, PartitionTransform
from gapless.model.stats import ColumnStats

PARTITION_SPEC = "gapless.spec-id"
"""Among the table's properties: the partition spec that is the table's."""
UNPARTITIONED = 0
"""The id of the spec without a field, which every table has: that of files that do not lie in one partition."""
_FIRST_FIELD = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH_NS = {"day": NS_PER_DAY, "hour": 3600 * NS_PER["s"]}


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a partition spec, by the stored name of its column."""

    transform: PartitionTransform
    stored: str
    name: str
    """What its column is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The spec that files are described by, where they lie in a partition of it."""

    spec_id: int = UNPARTITIONED
    parts: tuple[Part, ...] = ()
    spec: JsonObject | None = None
    """As an update adds it; None for one that the metadata has."""

    def value(self, stats: Mapping[str, ColumnStats]) -> tuple[Any, ...] | None:
        """The partition that a file with these statistics, by stored name, lies in; None where they do not prove one."""
        found = tuple(partition_value(one.transform, stats.get(one.stored)) for one in self.parts)
        return None if None in found or not found else found


def partition_value(transform: PartitionTransform, known: ColumnStats | None) -> int | str | bool | None:
    """The one value that a transform has for all rows of a file; None where its statistics do not prove that there is one.

    Times are nanoseconds since 1970 UTC; the year 1970 is 0, and so are its first month, day and hour.

    >>> partition_value("day", ColumnStats(min=-1, max=-1, nulls=0)), partition_value("day", ColumnStats(min=-1, max=0, nulls=0))
    (-1, None)
    """
    if known is None or known.nulls != 0 or known.min is None or known.max is None:
        return None
    if transform == "identity":
        return known.min if known.min == known.max and isinstance(known.min, int | str) else None
    if not isinstance(known.min, int) or not isinstance(known.max, int):
        return None
    low, high = _of_time(transform, known.min), _of_time(transform, known.max)
    return low if low == high else None


def _of_time(transform: PartitionTransform, time_ns: int) -> int:
    if transform in _LENGTH_NS:
        return time_ns // _LENGTH_NS[transform]
    moment = _EPOCH + timedelta(days=time_ns // _LENGTH_NS["day"])
    years = moment.year - _EPOCH.year
    return years if transform == "year" else years * 12 + moment.month - 1


def partitioning(
    parts: Sequence[Part], columns: Mapping[str, tuple[int, str]], specs: Iterable[JsonObject], last_field_id: int
) -> Partitioning:
    """The spec with these fields among those of the metadata, or a new one; `columns` has ids and types by stored name."""
    if not parts:
        return Partitioning()
    wanted = [(columns[one.stored][0], one.transform) for one in parts]
    known = list(specs)
    for spec in known:
        if [(one["source-id"], one["transform"]) for one in spec["fields"]] == wanted:
            return Partitioning(spec_id=spec["spec-id"], parts=tuple(parts))
    given = {(one["source-id"], one["transform"]): one["field-id"] for spec in known for one in spec["fields"]}
    fresh = iter(range(max(last_field_id + 1, _FIRST_FIELD), 2**31))
    fields = [
        {"source-id": id_, "field-id": given.get((id_, transform)) or next(fresh), "name": name, "transform": transform}
        for (id_, transform), name in zip(wanted, (partition_name(one.transform, one.name) for one in parts), strict=True)
    ]
    number = max(spec["spec-id"] for spec in known) + 1
    return Partitioning(spec_id=number, parts=tuple(parts), spec={"spec-id": number, "fields": fields})


def partition_name(transform: PartitionTransform, column: str) -> str:
    """What a partition field is called, as Spark calls it: as its column for the identity."""
    return column if transform == "identity" else f"{column}_{transform}"


def parts_of(fields: Iterable[PartitionField], stored_name: Callable[[str], str]) -> tuple[Part, ...]:
    """The fields, by declared and stored names of their columns."""
    return tuple(Part(one.transform, stored_name(one.column), one.column) for one in fields)
