"""What an upsert, a deletion and a replacement are to a rewrite whose rows arrive as segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gapless.coverage.bitmap import CoverageMap
from gapless.errors import InvalidValue
from gapless.model.segment import Segment
from gapless.parquet.attempt import Attempt
from gapless.parquet.keys import KeySet
from gapless.scan.predicate import Or, Predicate
from gapless.spark.revise import ByKey
from gapless.table.before import Before, Filter
from gapless.table.correction import Delete, Replace, Upsert, condition_cut
from gapless.table.cut import Cut, KeyCut
from gapless.table.rewrite import Said
from gapless.table.selection import select_identities
from gapless.table.values import format_index_value, parse_index_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Rows that executors wrote as segments which no commit names yet."""

    attempt: Attempt
    coverage: CoverageMap
    """What all of them cover."""
    bounds: tuple[Predicate, ...] = ()
    """For each segment what its keys say of rows that have one of them; of those whose keys were looked at."""


class Wish(Said, Protocol):
    """One intended change of rows, of which the driver never holds any."""

    def check(self, before: Before) -> None:
        """Raise what wrong arguments and columns deserve, before any row is looked at."""
        ...

    def distinct(self, before: Before) -> tuple[tuple[str, ...], ...]:
        """Lists of columns each of which no two arriving rows may have alike."""
        ...

    def decide(self, before: Before, arrived: Arrived) -> tuple[Cut, ByKey | Filter]:
        """Which rows of a version go: for the driver, which sees only what the log says, and for executors.

        Raises InvalidValue for rows that may not arrive.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertWish:
    """An upsert."""

    upsert: Upsert
    operation: str = "upsert"

    @property
    def parameters(self) -> Mapping[str, object]:
        """What the log says of it."""
        return self.upsert.parameters

    def check(self, before: Before) -> None:
        """See `Wish.check`."""
        self.upsert.check(before)

    def distinct(self, before: Before) -> tuple[tuple[str, ...], ...]:
        """See `Wish.distinct`."""
        columns = self.upsert.columns(before)
        return (columns, before.keys) if self._is_unique_beside(before) else (columns,)

    def decide(self, before: Before, arrived: Arrived) -> tuple[Cut, ByKey]:
        """See `Wish.decide`."""
        columns = self.upsert.columns(before)
        covered = set(before.keys) <= set(columns)
        cut = KeyCut(
            before=before,
            # Only executors look at rows.
            keys=KeySet.of(before.schema.empty_table(), columns),
            seen=Filter(columns=columns, predicate=Or(terms=arrived.bounds)),
            coverage=arrived.coverage if covered else None,
        )
        return cut, ByKey(columns=columns, covered=covered, unique=self._is_unique_beside(before))

    def _is_unique_beside(self, before: Before) -> bool:
        """Whether the table wants identity and index to be unique, and the key does not say that."""
        return before.meta.properties.unique and set(self.upsert.columns(before)) != set(before.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWish:
    """A deletion, or a replacement of a range."""

    correction: Delete | Replace

    @property
    def operation(self) -> str:
        """What the log calls it."""
        return self.correction.operation

    @property
    def parameters(self) -> Mapping[str, object]:
        """What the log says of it."""
        return self.correction.parameters

    def check(self, before: Before) -> None:
        """See `Wish.check`."""
        condition_cut(before, self.correction.request)

    def distinct(self, before: Before) -> tuple[tuple[str, ...], ...]:
        """See `Wish.distinct`."""
        return (before.keys,) if before.meta.properties.unique else ()

    def decide(self, before: Before, arrived: Arrived) -> tuple[Cut, Filter]:
        """See `Wish.decide`."""
        for segment, coverage in zip(arrived.attempt.segments, arrived.attempt.coverage, strict=True):
            self._check_inside(before, segment, coverage)
        cut = condition_cut(before, self.correction.request)
        return cut, cut.seen

    def _check_inside(self, before: Before, segment: Segment, coverage: CoverageMap) -> None:
        request, index = self.correction.request, before.index
        start, end = (
            None if value is None else parse_index_value(value, index, before.schema, name=name)
            for name, value in (("start", request.start), ("end", request.end))
        )
        chosen = select_identities(request.entity, index, before.schema)
        outside: object = next((identity for identity in coverage.identities() if not chosen(identity)), None)
        if start is not None and segment.bounds.first < start:
            outside = format_index_value(segment.bounds.first, index)
        elif end is not None and segment.bounds.last >= end:
            outside = format_index_value(segment.bounds.last, index)
        if outside is not None:
            raise InvalidValue(
                f"a row of the DataFrame lies outside what is to be replaced: {outside}",
                why="The range is half-open, and `entity` bounds it too",
                fix="Leave such rows out, or replace a range that holds them",
                column=index.column,
                row=-1,  # Its place is not known any more.
                value=str(outside),
            )
