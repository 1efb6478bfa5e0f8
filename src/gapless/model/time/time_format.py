"""Timestamp formats in strptime's directives: only those that fix a time wholly, read alike on every machine.

Python's own strptime drops what it cannot use (`%Z`, `%I` without `%p`), fills in what is missing (the year 1900), and reads names
in the process's locale. Here such a format is refused before a text is read, and names of months and days are English. As in Python,
white space stands for any white space, letters match in either case, and `%y` means 1969 to 2068.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gapless.model.instant import NS_PER, NS_PER_DAY, days_from_civil, days_from_iso_week, existing_day

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _any_of(names: Sequence[str]) -> str:
    return "|".join(names)


_FIXED = {"Y": "[0-9]{4}", "G": "[0-9]{4}", "y": "[0-9]{2}", "u": "[1-7]", "w": "[0-6]", "f": "[0-9]{1,9}"}
_PADDED = {
    "m": "1[0-2]|0[1-9]", "d": "3[01]|[12][0-9]|0[1-9]", "H": "2[0-4]|[01][0-9]", "I": "1[0-2]|0[1-9]", "M": "[0-5][0-9]",
    "S": "6[01]|[0-5][0-9]", "j": "36[0-6]|3[0-5][0-9]|[12][0-9]{2}|0[1-9][0-9]|00[1-9]", "U": "5[0-3]|[0-4][0-9]",
    "W": "5[0-3]|[0-4][0-9]", "V": "5[0-3]|0[1-9]|[1-4][0-9]",
}  # fmt: skip
_SHORT = {
    "m": "[1-9]", "d": " ?[1-9]", "H": "[0-9]", "I": "[1-9]", "M": "[0-9]", "S": "[0-9]", "j": "[1-9][0-9]|[1-9]", "U": "[0-9]",
    "W": "[0-9]", "V": "[1-9]",
}  # fmt: skip
_WORDS = {
    "b": _any_of([name[:3] for name in _MONTHS]),
    "B": _any_of(_MONTHS),
    "a": _any_of([name[:3] for name in _DAYS]),
    "A": _any_of(_DAYS),
    "p": "am|pm",
    "z": "[+-][0-9]{2}(?::[0-5][0-9](?::[0-5][0-9])?|[0-5][0-9](?:[0-5][0-9])?)?|(?-i:Z)",
    "Z": "(?-i:UTC|GMT|Z)",
}
_NUMBERS = {*_FIXED, *_PADDED}
_KNOWN = {*_NUMBERS, *_WORDS}

_INSTEAD = {
    "c": "its parts, such as %a %b %d %H:%M:%S %Y", "x": "its parts, such as %m/%d/%y", "X": "%H:%M:%S", "D": "%m/%d/%y",
    "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "r": "%I:%M:%S %p", "e": "%d", "k": "%H", "l": "%I", "h": "%b", "P": "%p",
    "L": "%f", "N": "%f", "-": "it without the sign: one digit and two are read alike", "s": 'no format: pass timestamp_unit="s"',
    ":": "%z, which reads +01:00 too", "C": "%Y", "g": "%G",
}  # fmt: skip
_LOCALE = ("c", "x", "X")
_SAYS_UTC = re.compile(r"(?i)(?<![a-z])(?:Z|UTC|GMT)(?![a-z])")
_SAYS_OFFSET = re.compile(r"[+-][0-9]{2}(?::?[0-9]{2})?$")


class UnfitFormat(Exception):
    """A format that does not fix a time, or says what has no effect: `why`, and what to write instead."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why, self.fix = why, fix


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeFormat:
    """A format that was understood."""

    text: str
    pattern: re.Pattern[str]
    has_zone: bool
    """Its times are instants."""
    has_clock: bool
    """It says a time of day; else a text is a date, and stands for its first instant."""

    def read(self, text: str) -> int:
        """Nanoseconds since 1970, of the instant or of the wall clock; raises ValueError, saying why, for a text that does not follow.

        >>> parse_time_format("%d.%m.%Y %H:%M").read("02.01.1970 24:00") // NS_PER_DAY
        2
        """
        found = self.pattern.fullmatch(text)
        if found is None:
            raise ValueError("the text has another form")
        parts = found.groupdict()
        day = _day(parts)
        _check_weekday(parts, day)
        return day * NS_PER_DAY + _of_day(parts) - _offset(parts)


@lru_cache(256)
def parse_time_format(text: str) -> TimeFormat:
    """Understand a format; raises UnfitFormat for one that leaves part of a time open, or says what could have no effect."""
    tokens = list(_tokens(text))
    named = [one[1:] for one in tokens if one[0] == "%" and one != "%%"]
    _check_known(named)
    _check_effects(named)
    _check_date(set(named))
    _check_clock(set(named))
    _check_literals(tokens, aware="z" in named or "Z" in named)
    return TimeFormat(
        text=text,
        pattern=re.compile("".join(_patterns(tokens)), re.IGNORECASE | re.ASCII),
        has_zone="z" in named or "Z" in named,
        has_clock=bool(set(named) & {"H", "I"}),
    )


def _tokens(text: str) -> Iterator[str]:
    """Directives (`%` and a character) and what stands between them."""
    for one in re.findall(r"%(?:.|\Z)|[^%]+", text, re.DOTALL):
        if one == "%":
            raise UnfitFormat("It ends in a single %", "Write %% for the character itself")
        yield one


def _patterns(tokens: Sequence[str]) -> Iterator[str]:
    for at, one in enumerate(tokens):
        name = one[1:]
        if one[0] != "%":
            yield r"\s+".join(map(re.escape, re.split(r"\s+", one)))
        elif one == "%%":
            yield "%"
        elif name in _PADDED:
            # Where digits touch, only full width says which are whose.
            touches = _is_digits(tokens[at - 1], -1) if at else False
            touches = touches or (at + 1 < len(tokens) and _is_digits(tokens[at + 1], 0))
            yield f"(?P<{name}>{_PADDED[name]}{'' if touches else '|' + _SHORT[name]})"
        else:
            yield f"(?P<{name}>{_FIXED.get(name) or _WORDS[name]})"


def _is_digits(token: str, edge: int) -> bool:
    return token[1:] in _NUMBERS if token[0] == "%" else token[edge].isdigit()


def _check_known(named: Sequence[str]) -> None:
    for name in named:
        if name in _KNOWN:
            continue
        said = "means another text in each locale" if name in _LOCALE else "is no directive that is read"
        known = ", ".join(f"%{one}" for one in sorted(_KNOWN, key=lambda one: (one.lower(), one.isupper())))
        raise UnfitFormat(f"%{name} {said}", f"Write {_INSTEAD[name]}" if name in _INSTEAD else f"There are {known}")
    for name in named:
        if named.count(name) > 1:
            raise UnfitFormat(f"%{name} stands there twice", "Name each part of a time once")


_WEEKDAYS = ("a", "A", "u", "w")
_IDLE: Sequence[tuple[tuple[str, ...], tuple[str, ...], str]] = (
    (("p",), ("H",), "Read the hour by %I where the text says am or pm, and leave %p out where it counts to 24"),
    (("I",), ("H",), "Keep the one that the text has: %I with %p, or %H"),
    (("y",), ("Y",), "Keep %Y"),
    (("G",), ("m", "b", "B", "d", "j"), "Write %Y for the year"),
    (("Y", "y"), ("V",), "%V counts weeks of the ISO year: write %G for the year, and %u, %a or %A for the day"),
    (("B",), ("b",), "Keep one of the two"),
    (("b", "B"), ("m",), "Keep %m"),
    (("W",), ("U",), "Keep the one that the file counts weeks by"),
    (("U", "W"), ("G", "V"), "Weeks of %U and %W are counted within %Y"),
    (("j", "U", "W", "V"), ("m", "b", "B", "d"), "Give the date once: as %Y-%m-%d, %Y-%j, %G-W%V-%u, or %Y %W %a"),
    (("j",), ("U", "W", "V"), "Give the date once: as %Y-%j, %G-W%V-%u, or %Y %W %a"),
)
"""Directives that would have no effect beside others, and what to do."""


def _check_effects(named: Sequence[str]) -> None:
    """Refuse a directive that would have no effect beside another. A weekday's is to be checked."""
    weekdays = [name for name in named if name in _WEEKDAYS]
    pairs = [(weekdays[1:], weekdays[:1], "Keep one of the two"), *_IDLE]
    for idle, beside, fix in pairs:
        for name in idle:
            if name in named and (other := next((one for one in beside if one in named), None)):
                raise UnfitFormat(f"%{name} has no effect beside %{other}", fix)


def _check_date(named: set[str]) -> None:
    weekday = bool(named.intersection(_WEEKDAYS))
    year = bool(named & {"Y", "y"})
    if "G" in named or "V" in named:
        wanted = {
            "the ISO year (%G)": "G" in named,
            "its week (%V)": "V" in named,
            "the day of the week (%u, %a or %A)": weekday,
        }
    elif named & {"U", "W"}:
        wanted = {"the year (%Y)": year, "the day of the week (%w, %a or %A)": weekday}
    elif "j" in named:
        wanted = {"the year (%Y)": year}
    else:
        month = bool(named & {"m", "b", "B"})
        wanted = {"the year (%Y)": year, "the month (%m)": month, "the day (%d)": "d" in named}
    missing = [name for name, there in wanted.items() if not there]
    if missing:
        *others, last = missing
        what = f"{', '.join(others)} and {last}" if others else last
        raise UnfitFormat(
            f"It leaves open {what}",
            "Name every part of the date; where the texts lack one, add it to them before they are read",
        )


def _check_clock(named: set[str]) -> None:
    if "I" in named and "p" not in named:
        raise UnfitFormat("%I without %p leaves open whether it is before or after noon", "Add %p, or read the hour by %H")
    if "p" in named and "I" not in named:
        raise UnfitFormat("%p has no effect without %I", "Read the hour by %I")
    for name, of, what in (
        ("M", {"H", "I"}, "the hour (%H)"),
        ("S", {"M"}, "the minute (%M)"),
        ("f", {"S"}, "the second (%S)"),
    ):
        if name in named and not named & of:
            raise UnfitFormat(f"%{name} leaves open {what}", "Name that too; the month is %m, the minute %M")


def _check_literals(tokens: Sequence[str], *, aware: bool) -> None:
    """Refuse a format that skips over a zone as if it were any text: its times would be read as naive."""
    for one in tokens:
        if aware or one[0] == "%":
            continue
        if found := _SAYS_UTC.search(one):
            directive = "%z" if found[0].upper() == "Z" else "%Z"
            raise UnfitFormat(
                f"{found[0]!r} in it says a zone, and would be skipped over",
                f"Write {directive} for it, which reads an instant",
            )
        if found := _SAYS_OFFSET.search(one.rstrip()):
            raise UnfitFormat(f"{found[0]!r} in it says an offset, and would be skipped over", "Write %z for it")


Parts = Mapping[str, str | None]


def _number(parts: Parts, name: str) -> int | None:
    text = parts.get(name)
    return None if text is None else int(text)


def _year(parts: Parts) -> int:
    short = _number(parts, "y")
    if short is not None:
        return short + (2000 if short < 69 else 1900)
    year = _number(parts, "Y") or _number(parts, "G")
    if not year:
        raise ValueError("there is no year 0")
    return year


def _day(parts: Parts) -> int:
    """Days since 1970 of the date."""
    year, weekday = _year(parts), _weekday(parts)
    if (week := _number(parts, "V")) is not None:
        assert weekday is not None
        if (found := days_from_iso_week(year, week, weekday + 1)) is None:
            raise ValueError(f"the ISO year {year} has no week {week}")
        return found
    first, end = days_from_civil(year, 1, 1), days_from_civil(year + 1, 1, 1)
    if (day_of_year := _number(parts, "j")) is not None:
        found = first + day_of_year - 1
    elif (week := _number(parts, "U") if parts.get("U") else _number(parts, "W")) is not None:
        assert weekday is not None
        # Week 1 begins at the first Sunday (%U) or Monday (%W) of the year.
        begins, within = (6, (weekday + 1) % 7) if parts.get("U") else (0, weekday)
        found = first + (begins - _weekday_of(first)) % 7 + (week - 1) * 7 + within
    else:
        return _of_month(parts, year)
    if not first <= found < end:
        raise ValueError(f"the year {year} has no such day")
    return found


def _of_month(parts: Parts, year: int) -> int:
    word = (parts.get("b") or parts.get("B") or "").lower()
    month = [name[:3] for name in _MONTHS].index(word[:3]) + 1 if word else _number(parts, "m") or 0
    day = _number(parts, "d") or 0
    found = existing_day(year, month, day)
    if found is None:
        raise ValueError(f"there is no day {day} in month {month} of {year}")
    return found


def _weekday_of(day: int) -> int:
    """The weekday of a day since 1970, which began on a Thursday; from Monday, 0."""
    return (day + 3) % 7


def _weekday(parts: Parts) -> int | None:
    """The weekday that a text names, from Monday, 0."""
    word = (parts.get("a") or parts.get("A") or "").lower()
    if word:
        return [name[:3] for name in _DAYS].index(word[:3])
    if (from_monday := _number(parts, "u")) is not None:
        return from_monday - 1
    from_sunday = _number(parts, "w")
    return None if from_sunday is None else (from_sunday + 6) % 7


def _check_weekday(parts: Parts, day: int) -> None:
    said = _weekday(parts)
    if said is not None and said != _weekday_of(day):
        raise ValueError(f"its date is a {_DAYS[_weekday_of(day)].capitalize()}")


def _of_day(parts: Parts) -> int:
    """Nanoseconds since midnight; 24:00 is the next day's."""
    hour, minute, second = (_number(parts, name) or 0 for name in ("H", "M", "S"))
    if (half := _number(parts, "I")) is not None:
        hour = half % 12 + 12 * ((parts.get("p") or "").lower() == "pm")
    fraction = int((parts.get("f") or "").ljust(9, "0"))
    if second > 59:
        raise ValueError("a leap second (:60) is no instant of its own here")
    if hour == 24 and (minute or second or fraction):
        raise ValueError("24:00 alone is the end of a day")
    return ((hour * 60 + minute) * 60 + second) * NS_PER["s"] + fraction


def _offset(parts: Parts) -> int:
    """How far the wall clock is ahead of UTC, in ns."""
    text = parts.get("z") or "Z"
    digits = text[1:].replace(":", "")
    hours, minutes, seconds = (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
    if hours > 23:
        raise ValueError(f"{text!r} is no offset")
    ahead = ((hours * 60 + minutes) * 60 + seconds) * NS_PER["s"] * (-1 if text[0] == "-" else 1)
    if parts.get("Z") and ahead:
        raise ValueError(f"{parts['Z']} is not {text}")
    return ahead
