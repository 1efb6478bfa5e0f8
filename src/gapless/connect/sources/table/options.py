"""The options of a source out of a table, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from gapless.connect.sources.table.source_table import Begin
from gapless.errors import InvalidOption, nearest, one_of
from gapless.model.time.duration import parse_duration
from gapless.tables.shared.versions import parse_instant_value, whole_number

Mode = Literal["batch", "snapshot", "incremental", "continuous"]
OnChange = Literal["error", "skip", "tell"]
OnMissingVersions = Literal["error", "earliest"]
OnSchemaChange = Literal["error", "keep", "evolve"]
ON_CHANGE: tuple[OnChange, ...] = get_args(OnChange)
ON_MISSING_VERSIONS: tuple[OnMissingVersions, ...] = get_args(OnMissingVersions)
ON_SCHEMA_CHANGE: tuple[OnSchemaChange, ...] = get_args(OnSchemaChange)

_ALWAYS = ("on_change", "on_missing_versions", "on_schema_change")
_OF_MODE: dict[Mode, tuple[str, ...]] = {
    "batch": (),
    "snapshot": ("version", "time"),
    "incremental": ("start", "since", "until"),
    "continuous": ("start", "since", "until", "poll_interval"),
}
_KNOWN = ("mode", "start", "since", "until", "version", "time", "poll_interval", *_ALWAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSourceOptions:
    """What is read of a table, and what becomes of commits that a reader of appended rows in fixed columns cannot take."""

    mode: Mode = "continuous"
    begin: Begin = field(default_factory=Begin)
    version: object = None
    """Of a snapshot; or
    """
    time: object = None
    """at which it was the newest."""
    until: int | None = None
    """The last version, inclusive."""
    until_ns: int | None = None
    """Nanoseconds since 1970 UTC: the last version is the newest that was committed by then."""
    poll_interval: float = 0.0
    """Seconds: the log is asked for new versions no more often."""
    on_change: OnChange = "error"
    on_missing_versions: OnMissingVersions = "error"
    on_schema_change: OnSchemaChange = "error"

    @property
    def is_one_version(self) -> bool:
        """Whether all rows of one version are what is read."""
        return self.mode in ("batch", "snapshot")

    @classmethod
    def parse(cls, options: Mapping[str, Any], others: Sequence[str] = ()) -> TableSourceOptions:
        """As a caller gave them; `others` are options that such a table has besides, which were taken out. Raises InvalidOption, InvalidTime."""
        given = {name: value for name, value in options.items() if value is not None}
        mode = one_of("mode", given.get("mode", "continuous"), tuple(_OF_MODE))
        for name, value in given.items():
            if name not in _KNOWN:
                raise InvalidOption(
                    f"{name}={value!r} is no option of a source out of a table",
                    why=f"Known are {', '.join((*_KNOWN, *others))} and storage_options",
                    fix=nearest(name, (*_KNOWN, *others)),
                    option=name,
                    value=value,
                )
            if name not in ("mode", *_ALWAYS, *_OF_MODE[mode]):
                raise _not_of_mode(name, value, mode)
        if mode == "snapshot" and "version" not in given and "time" not in given:
            raise InvalidOption(
                "a snapshot of no version was asked for",
                why="It is all rows of one version",
                fix='Pass version= or time=, or mode="batch" for the newest version',
                option="version",
                value=None,
            )
        until = given.get("until")
        until_version = None if until is None else _version("until", until)
        return cls(
            mode=mode,
            begin=_begin(given.get("start"), given.get("since")),
            version=given.get("version"),
            time=given.get("time"),
            until=until_version,
            until_ns=None if until is None or until_version is not None else _instant("until", until),
            poll_interval=_interval(given.get("poll_interval", 0.0)),
            on_change=one_of("on_change", given.get("on_change", "error"), ON_CHANGE),
            on_missing_versions=one_of("on_missing_versions", given.get("on_missing_versions", "error"), ON_MISSING_VERSIONS),
            on_schema_change=one_of("on_schema_change", given.get("on_schema_change", "error"), ON_SCHEMA_CHANGE),
        )


def _not_of_mode(name: str, value: object, mode: Mode) -> InvalidOption:
    modes = [one for one, taken in _OF_MODE.items() if name in taken]
    return InvalidOption(
        f"{name}={value!r} is no option of mode={mode!r}",
        why=f"It belongs to {' and '.join(f'mode={one!r}' for one in modes)}",
        fix=f"Leave it out, or pass mode={modes[0]!r}",
        option=name,
        value=value,
    )


def _begin(start: object, since: object) -> Begin:
    if start is not None and since is not None:
        raise InvalidOption(
            "start and since are both given",
            why="start is the first version that is read, since the last one that is not",
            fix="Pass one of them",
            option="since",
            value=since,
        )
    if since is not None:
        version = _version("since", since)
        if version is not None:
            return Begin(version=version + 1, option="since")
        return Begin(time_ns=_instant("since", since) + 1, option="since")
    if start is None or start in ("earliest", "latest"):
        return Begin(version=start)
    version = _version("start", start)
    return Begin(version=version) if version is not None else Begin(time_ns=_instant("start", start))


def _version(name: str, value: object) -> int | None:
    """The number of a version; None for what may be a time."""
    version = whole_number(value)
    if version is not None and version < 0:
        raise _no_place(name, value)
    return version


def _instant(name: str, value: object) -> int:
    if isinstance(value, bool | float) or (isinstance(value, str) and not value[:1].isdigit()):
        raise _no_place(name, value)
    return parse_instant_value(value, name=name)


def _no_place(name: str, value: object) -> InvalidOption:
    words = ' "earliest", "latest",' if name == "start" else ""
    return InvalidOption(
        f"{name}={value!r} is no place in a table",
        why="Versions are whole numbers from 0, and times have a zone",
        fix=f"Pass{words} the number of a version, or a time such as datetime(2026, 1, 5, tzinfo=UTC)",
        option=name,
        value=value,
    )


def _interval(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    if isinstance(value, int | float):
        raise InvalidOption(
            f"poll_interval={value!r} is no number of seconds",
            why="The log is asked for new versions no more often than that",
            fix='Pass 0 or more, or a text such as "10 seconds"',
            option="poll_interval",
            value=value,
        )
    return parse_duration(value, "poll_interval").total_seconds()
