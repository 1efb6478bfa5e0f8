"""Statistics that the log has of a column, held against those of the rows that are there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.model.stats import Bound, ColumnStats


def contradiction(known: ColumnStats, found: Sequence[ColumnStats]) -> str:
    """What the log's statistics exclude although it is there, as a clause; empty where they hold. `found` are those of the parts of a file."""
    for name in ("nulls", "nans"):
        said, counted = getattr(known, name), [getattr(one, name) for one in found]
        if said is not None and None not in counted and sum(counted) != said:
            return f"{sum(counted):,} {name}, not {said:,}"
    for one in found:
        if _less(one.min, known.min):
            return f"{one.min!r} is below {known.min!r}"
        if _less(known.max, one.max):
            return f"{one.max!r} is above {known.max!r}"
    return ""


def _less(low: Bound | None, high: Bound | None) -> bool:
    if low is None or high is None:
        return False
    try:
        return bool(low < high)  # type: ignore[operator]  # two bounds of one column are of one kind, or it is caught
    except TypeError:
        return True
