"""Times as people write them in ISO 8601: calendar, week and ordinal dates, extended and basic forms, 24:00, comma fractions.

A form that is not read is refused by its own name. `parse_instant` reads the narrower texts of the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapless.model.instant import NS_PER, NS_PER_DAY, days_from_civil, days_from_iso_week, existing_day, format_instant

_DAY = (
    r"(?P<year>[+-]?[0-9]{4,9})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"|(?P<byear>[0-9]{4})(?P<bmonth>[0-9]{2})(?P<bday>[0-9]{2})"
    r"|(?P<wyear>[0-9]{4})-?W(?P<week>[0-9]{2})-?(?P<weekday>[0-9])"
    r"|(?P<oyear>[0-9]{4})-?(?P<ordinal>[0-9]{3})"
)
_CLOCK = r"(?P<hour>[0-9]{2})(?::?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?)?"
_ZONE = r"(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2})?)?)"
# Behind a date alone digits are as likely a time of day (20260105-0930) as an offset, which must have its colon there.
_DATE_ZONE = r"(?P<datezone>[Zz]|[+-][0-9]{2}:[0-9]{2})"
_TEXT = re.compile(rf"(?:{_DAY})(?:[Tt ]{_CLOCK}(?:\s*{_ZONE})?|{_DATE_ZONE})?", re.ASCII)
_DIGITS = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)

_FORMS = (
    (r".*\[.*\]", "It names a zone in brackets, as Java does: only the offset of an instant is read"),
    (r"[0-9]{4}-.*/[0-9P].*|P.*/[0-9].*", "It is an ISO 8601 interval of two ends, and no instant"),
    (r"[Pp][0-9T].*", "It is an ISO 8601 duration, and no instant"),
    (r"[0-9]{4}-[0-9]{2}|[0-9]{4}-?W[0-9]{2}", "It is an ISO 8601 month or week without a day, which leaves the day open"),
    (r"--.*", "It is a date without a year"),
    (r".*[Tt ][0-9]{2}[.,][0-9]+(\s*[Zz]|[+-][0-9:]+)?", "It has a fraction of an hour (ISO 8601), which is not read"),
    (r".*:[0-9]{2}[.,][0-9]{10,}.*", "It has more than nine digits of a second, and nanoseconds are the finest unit"),
    (r".*[0-9]:?[0-9]{2}[.,][0-9]+(\s*[Zz]|[+-][0-9:]+)?", "It has a fraction of a minute (ISO 8601), which is not read"),
    (r"[Tt]?[0-9]{1,2}:[0-9]{2}.*", "It is a time of day without a date"),
    (r"[A-Za-z]{3}.*", "It begins with a word, and is no ISO 8601 date or time"),
    (r".*[0-9] ?[A-Za-z_/]{2,}", "It ends in the name of a zone, and ISO 8601 has offsets alone: Z or +01:00"),
    (r"[+-]?[0-9]{1,3}-.*|[+-]?[0-9]{7,}-.*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*", "It is no ISO 8601: digits of its date are missing, or too many"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IsoTime:
    """A time that was read."""

    ns: int
    """Since 1970-01-01T00:00Z; of the wall clock where there is no offset."""
    aware: bool
    """Whether the text says its offset."""
    is_date: bool
    """Whether it is a date alone; `ns` is then its midnight."""


def parse_iso(text: str) -> IsoTime:
    """Read a time; raises ValueError that names the form, or what is not there in the calendar.

    Digits alone are never read: they may as well count seconds.

    >>> parse_iso("1970-W01-4T24:00Z").ns // NS_PER_DAY
    1
    """
    text = text.strip()
    found = None if _DIGITS.fullmatch(text) else _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(_name_of(text))
    parts = found.groupdict()
    ns = _days(parts) * NS_PER_DAY + _of_day(parts)
    zone = parts["zone"] or parts["datezone"]
    if parts["hour"] is None and zone is None:
        return IsoTime(ns, aware=False, is_date=True)
    return IsoTime(ns - _offset(zone), aware=zone is not None, is_date=False)


def canonical(text: str) -> str | None:
    """The same time in the form that Arrow reads, with four digits of a year; None where it cannot be read, or has no such form.

    >>> canonical("1970-002T24:00Z")
    '1970-01-03T00:00:00Z'
    """
    try:
        found = parse_iso(text)
    except ValueError:
        return None
    shown = format_instant(found.ns, "Z" if found.aware else "")
    if shown[4] != "-" or shown[0] in "+-":
        return None
    return shown.partition("T")[0] if found.is_date else shown


def _name_of(text: str) -> str:
    """Why a text is not read."""
    if _DIGITS.fullmatch(text):
        return "It is a number: the same digits can be a date or a count of seconds"
    return next((name for form, name in _FORMS if re.fullmatch(form, text, re.ASCII)), "It is no ISO 8601 date or time")


def _days(parts: dict[str, str | None]) -> int:
    if parts["week"] is not None:
        year, week, weekday = (int(parts[name] or 0) for name in ("wyear", "week", "weekday"))
        found = days_from_iso_week(year, week, weekday)
    elif parts["ordinal"] is not None:
        year, ordinal = int(parts["oyear"] or 0), int(parts["ordinal"])
        first = days_from_civil(year, 1, 1)
        found = first + ordinal - 1 if 1 <= ordinal <= days_from_civil(year + 1, 1, 1) - first else None
    else:
        year, month, day = (int(parts[name] or parts["b" + name] or 0) for name in ("year", "month", "day"))
        found = existing_day(year, month, day)
    if found is None:
        raise ValueError("It is ISO 8601, but the calendar has no such day")
    return found


def _of_day(parts: dict[str, str | None]) -> int:
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    fraction = int((parts["fraction"] or "").ljust(9, "0"))
    if second == 60 and minute < 60:
        raise ValueError("It is a leap second (:60), which is no instant of its own here")
    if hour == 24 and (minute or second or fraction):
        raise ValueError("It is past 24:00, which is the end of its day")
    if hour > 24 or minute > 59 or second > 59:
        raise ValueError("It is no time of day: hours reach to 24:00, minutes and seconds to 59")
    return ((hour * 60 + minute) * 60 + second) * NS_PER["s"] + fraction


def _offset(zone: str | None) -> int:
    """How far a wall clock is ahead of UTC, in ns."""
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes, seconds = (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"Its offset {zone} is none: hours reach to 23, minutes to 59")
    ahead = ((hours * 60 + minutes) * 60 + seconds) * NS_PER["s"]
    return -ahead if zone[0] == "-" else ahead
