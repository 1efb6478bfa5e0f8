"""DESCRIBE HISTORY for every kind of table: the newest commits up to a version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gapless.errors import InvalidOption
from gapless.log.format import Entry, State, TableFormat
from gapless.log.versions import read_back
from gapless.model.instant import NS_PER
from gapless.runtime.environment import Environment


def read_history(
    env: Environment, table_format: TableFormat[Entry, State], version: int, limit: int | None, *, ordered: bool
) -> list[tuple[int, Entry, datetime]]:
    """The newest `limit` commits up to `version` (all where None) as (version, entry, commit time), oldest first.

    A log that was cleaned gives the later ones only. Commit times are in UTC; where they are `ordered`, one that runs backward is that of the
    commit before. Raises InvalidOption for a limit below 0, CorruptTable where a commit is lost, StoreError.
    """
    if limit is not None and (isinstance(limit, bool) or not hasattr(limit, "__index__") or limit < 0):
        raise InvalidOption(f"limit={limit!r} is no whole number from 0 up", fix="Pass limit=20", option="limit", value=limit)
    latest, found = 0, []
    for at, entry, time_ns in env.drive(read_back(table_format, version, limit)):
        latest = max(latest, time_ns) if ordered else time_ns
        found.append((at, entry, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=latest // NS_PER["us"])))
    return found


def duration_of(milliseconds: int | None) -> timedelta | None:
    """How long a change took, as history shows it."""
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)
