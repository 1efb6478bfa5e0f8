"""Time travel of time-series tables: versions that were not expired, by number, commit time or tag."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from gapless.errors import CorruptTable, VersionNotFound
from gapless.formats.timeseries.actions import Commit, TableState
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.effects import Conversation
from gapless.log.format import Snapshot
from gapless.log.snapshot import refresh
from gapless.log.versions import TooEarly, version_at
from gapless.runtime.environment import Environment
from gapless.tables.shared.versions import Versions, explained, warn_of_damage
from gapless.tables.timeseries.lifecycle import open_table


class SeriesVersions(Versions[Commit, TableState]):
    """The versions of a time-series table."""

    table_format = TIME_SERIES
    names = ("version", "time", "tag")

    def version_at(self, newest: Snapshot[TableState], time_ns: int) -> Conversation[int | TooEarly]:
        """Searches the versions that are not expired."""
        return version_at(TIME_SERIES, newest, time_ns, first=newest.state.earliest)

    def why_gone(self, newest: TableState, first: int, time: str) -> tuple[str, str]:
        """They are expired, but for those that tags keep."""
        why = f"Versions before {first}, which was committed at {time}, are expired; {remains(newest)}"
        return why, "Pass a later time, or tag= where a tag keeps it"

    def tags(self, newest: TableState) -> Mapping[str, int]:
        """Those that the newest version has."""
        return newest.tags

    def check_kept(self, newest: TableState, version: int) -> None:
        """Raise VersionNotFound for an expired version."""
        check_kept(newest, version)


VERSIONS = SeriesVersions()
find_version, open_version = VERSIONS.find, VERSIONS.open


def newest_of(env: Environment, snapshot: Snapshot[TableState]) -> Snapshot[TableState]:
    """The newest version of the log; that of `snapshot`, with a warning, where a later commit cannot be read."""
    try:
        return env.drive(refresh(TIME_SERIES, snapshot))
    except CorruptTable as damage:
        warn_of_damage(damage)
        return snapshot


def check_kept(state: TableState, version: int) -> None:
    """Raise VersionNotFound for a version that the newest state, `state`, no longer keeps."""
    if not state.keeps(version):
        raise VersionNotFound(
            f"version {version} can be read no longer",
            why=f"It was expired, and files that only it used may be gone; {remains(state)}",
            fix="Take one of those; a tag keeps a version from expiring",
            version=version,
        )


def reading(env: Environment, snapshot: Snapshot[TableState]) -> AbstractContextManager[None]:
    """While files of a version are read: where it expired meanwhile, a missing file is VersionNotFound, not CorruptTable."""
    return explained(lambda: check_kept(newest_of(env, snapshot).state, snapshot.version))


def reading_version(env: Environment, version: int) -> AbstractContextManager[None]:
    """The same as `reading`, where only the number of the version is known."""
    return explained(lambda: check_kept(open_table(env, env.store.url).state, version))


def remains(state: TableState) -> str:
    """Which versions are kept, as a sentence's part: "the earliest that remains is 7, and tag 'a' keeps 3"."""
    earlier = [f"{name!r} ({at})" for name, at in sorted(state.tags.items()) if at < state.earliest]
    tags = f", and the tag{'s' * (len(earlier) > 1)} {', '.join(earlier)}" if earlier else ""
    return f"what remains begins with version {state.earliest}{tags}"
