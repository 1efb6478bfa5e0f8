"""What a predicate says of segments of which only the index range and the identity are known. Pure."""

from __future__ import annotations

from datetime import date

import pyarrow as pa

from gapless.model.index import Identity, IdentityValue, IndexSpec
from gapless.model.instant import NS_PER_DAY, ns_from_date
from gapless.model.segment_index import May
from gapless.model.stats import ColumnStats
from gapless.scan.predicate import Predicate
from gapless.scan.prune import sieve


def may_hold(predicate: Predicate, index: IndexSpec, schema: pa.Schema) -> May:
    """Whether segments of an index range and an identity may hold a row that the predicate keeps; raises UnknownColumn."""
    matches = sieve(predicate, schema)

    def may(first: int | None, last: int | None, identity: Identity | None) -> bool:
        known = {index.column: ColumnStats(min=first, max=last)}
        for name, value in zip(index.entity, identity or (), strict=False):
            bound = _bound(value)
            known[name] = ColumnStats(min=bound, max=bound)
        return matches(known.get, None)

    return may


def _bound(value: IdentityValue) -> bool | int | str:
    """A value as statistics have it."""
    return ns_from_date(value) // NS_PER_DAY if isinstance(value, date) else value
