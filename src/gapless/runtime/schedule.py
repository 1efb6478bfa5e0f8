"""When something is to be done: every so often, or by a cron expression in a time zone. Pure: no clock is asked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from gapless.coverage.local_days import parse_zone
from gapless.errors import InvalidOption
from gapless.model.instant import NS_PER
from gapless.model.time.duration import parse_duration

_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_CHECKED = datetime(2001, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Times at which something is due: `every_ns` apart, or by `cron` in `timezone`; each later by a delay of at most `jitter_ns`.

    The delay is the same each time and another for each name (`delayed`), so that many of one schedule do not begin at once.

    Times of a cron expression are those of the zone's wall clock, as Debian's cron has them. Where a clock change skips a time, it is due
    right after the change; a time that is repeated is due the first time. With a `*` at the front of the minutes or hours the times are
    those that the clock shows: "*/30 * * * *" is due every half hour, however the clock is changed.
    """

    every_ns: int = 0
    """Nanoseconds between two times; 0 where `cron` says them."""
    cron: str = ""
    """Five fields: minute, hour, day of month, month, day of week."""
    timezone: str = "UTC"
    jitter_ns: int = 0
    delay_ns: int = 0
    """By how much each time is later."""

    @classmethod
    def parse(cls, given: object, option: str = "schedule", *, timezone: str = "UTC", jitter: object = None) -> Schedule:
        """A schedule from "10 minutes", a timedelta, "0 3 * * *" or "@daily"; `option` is what messages call it. Raises InvalidOption.

        >>> Schedule.parse("10 minutes").every_ns // 10**9, Schedule.parse("@daily").cron
        (600, '0 0 * * *')
        """
        zone = _parse_timezone(timezone)
        jitter_ns = 0 if jitter is None else _ns(parse_duration(jitter, "jitter"))
        if isinstance(given, Schedule):
            return given
        if isinstance(given, str) and ("@" in given or "*" in given or len(given.split()) > 2):
            return cls(cron=_parse_cron(given, option), timezone=zone, jitter_ns=jitter_ns)
        every_ns = _ns(parse_duration(given, option))
        if every_ns < NS_PER["s"]:
            raise InvalidOption(
                f"{option}={given!r} is too short for a schedule",
                why="A second is the shortest",
                fix=f'Pass such as {option}="10 minutes"',
                option=option,
                value=given,
            )
        return cls(every_ns=every_ns, timezone=zone, jitter_ns=jitter_ns)

    def delayed(self, name: str) -> Schedule:
        """The same with the delay of a name: of the jitter, a share that only the name decides."""
        share = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        return replace(self, delay_ns=self.jitter_ns * share >> 64)

    def first_after(self, ns: int) -> int:
        """When something that begins at `ns` is due first (both nanoseconds since 1970 UTC): an interval later, or at the next time."""
        return ns + self.every_ns + self.delay_ns if self.every_ns else self._next_time(ns)

    def following(self, due_ns: int, began_ns: int) -> int:
        """When it is due next, where what was due at `due_ns` began at `began_ns`, that time or later; nanoseconds since 1970 UTC.

        Times that passed until it began are missed: it stands for all of them. What comes while it is at work is due at once after it.
        """
        if self.every_ns:
            return began_ns + self.every_ns - (began_ns - due_ns) % self.every_ns
        return self._next_time(began_ns)

    def awaited(self, due_ns: int, now_ns: int) -> int:
        """The time to wait for, where the clock may have been set back since: of an interval never more than one from now on."""
        return min(due_ns, now_ns + self.every_ns + self.delay_ns) if self.every_ns else due_ns

    def _next_time(self, ns: int) -> int:
        """The first time of the cron expression after `ns`."""
        after = _EPOCH + timedelta(microseconds=(ns - self.delay_ns) // NS_PER["us"])
        # Within an hour that is repeated, times of the wall clock that are over already seem to come.
        times = CronSim(self.cron, after.astimezone(ZoneInfo(self.timezone)))
        return _ns(next(found for one in times if (found := one.astimezone(UTC)) > after) - _EPOCH) + self.delay_ns

    def __str__(self) -> str:
        """As it is written."""
        if self.every_ns:
            return f"every {timedelta(microseconds=self.every_ns // 1000)}"
        return f"{self.cron} ({self.timezone})"


def _ns(length: timedelta) -> int:
    return length // timedelta(microseconds=1) * NS_PER["us"]


def _parse_timezone(timezone: object) -> str:
    if not isinstance(timezone, str):
        raise InvalidOption(
            f"timezone={timezone!r} is no name of a time zone",
            fix='Pass such as timezone="Europe/Berlin"',
            option="timezone",
            value=timezone,
        )
    parse_zone(timezone)
    return timezone


def _parse_cron(text: str, option: str) -> str:
    cron = _NICKNAMES.get(text.strip().lower(), text.strip())
    fields = cron.split()
    why = "It has 1 field" if len(fields) == 1 else f"It has {len(fields)} fields"
    if len(fields) == _FIELDS:
        try:
            if next(CronSim(cron, _FIRST_CHECKED), None) is not None:
                return " ".join(fields)
            why = "No day is one of it"
        except CronSimError as error:
            why = f"cronsim says: {error}"
    raise InvalidOption(
        f"{option}={text!r} is no cron expression",
        why=f"{why}; minute, hour, day of month, month and day of week are wanted",
        fix=f'Write such as {option}="0 3 * * *" for every day at 3:00, or an interval, such as "10 minutes"',
        option=option,
        value=text,
    )
