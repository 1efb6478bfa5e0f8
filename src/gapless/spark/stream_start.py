"""Where a stream that has no checkpoint yet begins."""

from __future__ import annotations

from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.dialects.timeseries.stream_plan import Cursor, commit_items
from gapless.errors import InvalidTime
from gapless.log.travel import TooEarly, read_range, version_at
from gapless.model.instant import format_instant
from gapless.spark.options import SourceOptions
from gapless.spark.stream_log import StreamLog
from gapless.table.travel import no_version
from gapless.table.values import parse_instant_value


def first_cursor(log: StreamLog, options: SourceOptions) -> Cursor:
    """Where a stream begins: with all rows of the newest version where no option says it, and then with what later ones change.

    Raises VersionNotFound for a version that is not there, or cannot be told any more and must be; InvalidTime.
    """
    newest, version = log.newest, options.starting_version
    if options.starting_timestamp is not None:
        return _since(log, parse_instant_value(options.starting_timestamp, name="startingTimestamp"))
    if version == "earliest":
        return _earliest(log)
    if version is None and newest.state.live:
        return Cursor(version=newest.version, whole=True)
    if version is None or version == "latest":
        return Cursor(version=newest.version + 1)
    if not 1 <= version <= newest.version + 1:
        raise no_version(version, newest)
    return _kept(log, version)


def _earliest(log: StreamLog) -> Cursor:
    """The first version whose changes can be told."""
    earliest = log.newest.state.earliest
    if earliest > 1 and log.follow.on_change == "tell":
        ((version, commit, time_ns),) = log.rim.drive(read_range(TIME_SERIES, earliest, earliest + 1))
        items = commit_items(version, commit, time_ns, "tell")
        return Cursor(version=earliest + (bool(items) and not log.tells(version, items)))
    return Cursor(version=earliest)


def _since(log: StreamLog, time_ns: int) -> Cursor:
    """The first version that was committed at `time_ns` (since 1970 UTC) or later."""
    if time_ns > log.rim.clock.now_ns():
        raise InvalidTime(
            f"startingTimestamp={format_instant(time_ns)!r} lies in the future",
            why="Which version will be the first then is not known yet",
            fix='Pass a time that has been, or startingVersion "latest"',
            value=time_ns,
        )
    earliest = log.newest.state.earliest
    found = log.rim.drive(version_at(TIME_SERIES, log.newest, time_ns - 1, first=earliest))
    if not isinstance(found, TooEarly):
        return Cursor(version=found + 1)
    # Versions that are expired may have come at that time or later, unless the earliest that is kept came then.
    return _kept(log, earliest if earliest == 1 or found.time_ns <= time_ns else earliest - 1)


def _kept(log: StreamLog, version: int) -> Cursor:
    cursor = Cursor(version=version)
    return cursor if version >= log.newest.state.earliest else log.past_missing(cursor)
