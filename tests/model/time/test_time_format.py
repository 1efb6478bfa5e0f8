"""Timestamp formats: what is accepted fixes a time wholly and by every directive, as Python's strptime has it in English."""

from __future__ import annotations

import itertools
import locale
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import InvalidOption
from gapless.model.input_formats import Csv, Json
from gapless.model.instant import days_from_iso_week, ns_from_datetime
from gapless.model.time.time_format import UnfitFormat, parse_time_format

DIRECTIVES = "aAbBdfGHIjmMpSuUVwWyYzZ"
TIMES = [
    datetime(2026, 1, 5, 14, 30, 15, 250_000),
    datetime(1999, 12, 31, 0, 0, 0, 1),
    datetime(2024, 2, 29, 12, 59, 59, 999_999),
    datetime(2011, 8, 1, 1, 5, 0),
]
BERLIN_WINTER = timezone(timedelta(hours=1))


def joined(directives: tuple[str, ...]) -> str:
    return "|".join(f"%{one}" for one in directives)


def is_accepted(format_: str) -> bool:
    try:
        parse_time_format(format_)
    except UnfitFormat:
        return False
    return True


def written(when: datetime, directive: str) -> str:
    """The text of one directive; %U and %W of a date's own year, %Z as it is read here."""
    return "UTC" if directive == "Z" else when.strftime(f"%{directive}")


def subsets(most: int) -> Iterator[tuple[str, ...]]:
    for count in range(1, most + 1):
        yield from itertools.combinations(DIRECTIVES, count)


def known_part(when: datetime, directives: tuple[str, ...]) -> datetime:
    """A time cut to what the directives say of it."""
    has_hour = "H" in directives or "I" in directives
    return when.replace(
        hour=when.hour if has_hour else 0,
        minute=when.minute if "M" in directives else 0,
        second=when.second if "S" in directives else 0,
        microsecond=when.microsecond if "f" in directives else 0,
    )


ACCEPTED = [one for one in subsets(5) if is_accepted(joined(one))]


def test_t2_16_of_every_format_of_five_directives_the_accepted_ones_fix_the_time() -> None:
    assert len(ACCEPTED) > 100
    for directives in ACCEPTED:
        format_ = parse_time_format(joined(directives))
        for when in TIMES:
            zoned = when.replace(tzinfo=UTC if "Z" in directives else BERLIN_WINTER)
            found = format_.read("|".join(written(zoned, one) for one in directives))
            expected = known_part(when, directives)
            zone = UTC if "Z" in directives else BERLIN_WINTER if "z" in directives else None
            assert found == ns_from_datetime(expected.replace(tzinfo=zone)), directives
            assert format_.has_zone == (zone is not None)


def test_t2_16_no_directive_of_an_accepted_format_is_without_effect() -> None:
    """Of texts that differ in one directive alone, one is refused, or they are different times."""
    when, other = TIMES[0].replace(tzinfo=UTC), TIMES[2].replace(tzinfo=BERLIN_WINTER)
    for directives in ACCEPTED:
        format_ = parse_time_format(joined(directives))
        before = format_.read("|".join(written(when, one) for one in directives))
        for changed in directives:
            if changed == "Z":
                continue
            text = "|".join(written(other if one == changed else when, one) for one in directives)
            if written(other, changed) == written(when, changed):
                continue
            try:
                after = format_.read(text)
            except ValueError:
                continue
            assert after != before, (directives, changed)


@given(
    st.sampled_from(
        [
            "%Y-%m-%d %H:%M:%S.%f", "%d/%m/%Y %I:%M %p", "%b %d %Y %H", "%A, %d %B %Y", "%Y-%j %H:%M:%S", "%G-W%V-%u", "%Y %U %a",
            "%Y %W %w", "%Y%m%d%H%M%S%f", "%a, %d %b %Y %H:%M:%S %z", "%y%m%d", "100%% %Y.%m.%d", "%Y-%m-%dT%H:%M:%S%z",
        ]
    ),
    st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31)),
)  # fmt: skip
def test_a_format_reads_what_strptime_reads(format_: str, when: datetime) -> None:
    text = when.replace(tzinfo=BERLIN_WINTER).strftime(format_)
    expected = datetime.strptime(text, format_)  # noqa: DTZ007 - the oracle
    assert parse_time_format(format_).read(text) == ns_from_datetime(expected)


@given(st.integers(1, 9998), st.integers(1, 53), st.integers(1, 7))
def test_iso_weeks_are_those_of_python(year: int, week: int, weekday: int) -> None:
    try:
        expected = datetime.fromisocalendar(year, week, weekday)
    except ValueError:
        assert days_from_iso_week(year, week, weekday) is None
    else:
        assert days_from_iso_week(year, week, weekday) == (expected - datetime(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("format_", "directive", "remedy"),
    [
        ("%d/%m/%Y %I:%M", "%I", "%p"),
        ("%d/%m/%Y %H:%M %p", "%p", "%I"),
        ("%d/%m/%Y %p", "%p", "%I"),
        ("%H:%M:%S", "(%Y)", "every part of the date"),
        ("%m-%d", "(%Y)", "every part of the date"),
        ("%Y-%m", "(%d)", "every part of the date"),
        ("%Y", "(%m)", "every part of the date"),
        ("%d/%M/%Y", "(%m)", "every part of the date"),
        ("%Y-%m-%d %M", "%M", "%H"),
        ("%Y-%m-%d %H:%S", "%S", "%M"),
        ("%Y-%m-%d %H:%M %f", "%f", "%S"),
        ("%Y-%m-%d %j", "%j", "once"),
        ("%Y-%m-%d %W", "%W", "once"),
        ("%Y %U", "(%w", "every part of the date"),
        ("%Y-%V-%u", "%Y", "%G"),
        ("%G-%V", "(%u", "every part of the date"),
        ("%G-%m-%d", "%G", "%Y for the year"),
        ("%y %Y-%m-%d", "%y", "%Y"),
        ("%c", "%c", "%a %b %d"),
        ("%x", "%x", "%m/%d/%y"),
        ("%X", "%X", "%H:%M:%S"),
        ("%s", "%s", 'timestamp_unit="s"'),
        ("%F %T", "%F", "%Y-%m-%d"),
        ("%Y-%m-%dT%H:%M:%S.%L", "%L", "%f"),
        ("%-d.%m.%Y", "%-", "without the sign"),
        ("%Y-%m-%d %H:%M%:z", "%:", "%z"),
        ("%Y-%m-%d %Q", "%Q", "There are %a"),
        ("%Y-%m-%d %d", "%d", "once"),
        ("%Y-%m-%d %", "%", "%%"),
        ("%Y-%m-%dT%H:%M:%SZ", "'Z'", "%z"),
        ("%Y-%m-%d %H:%M UTC", "'UTC'", "%Z"),
        ("%Y-%m-%d %H:%M gmt", "'gmt'", "%Z"),
        ("%Y-%m-%d %H:%M+01:00", "'+01:00'", "%z"),
        ("%Y-%m-%d %H:%M +0100 ", "'+0100'", "%z"),
    ],
)
def test_t2_16_what_a_format_cannot_fix_is_refused_when_the_options_are_made(format_: str, directive: str, remedy: str) -> None:
    for options in (Csv, Json):
        with pytest.raises(InvalidOption) as caught:
            options(timestamp_format=format_)
        assert caught.value.option == "timestamp_format"
        assert caught.value.value == format_
        assert directive in caught.value.why
        assert remedy in f"{caught.value.why} {caught.value.fix}"


@pytest.mark.parametrize(
    ("format_", "text", "why"),
    [
        ("%a %d/%m/%Y", "Tue 05/01/2026", "Monday"),
        ("%d/%m/%Y", "31/02/2026", "no day 31"),
        ("%d/%m/%Y", "5/1/26", "another form"),
        ("%Y%m%d", "2026115", "another form"),
        ("%Y-%m-%d %H:%M", "2026-01-05 24:30", "24:00"),
        ("%Y-%m-%d %H:%M:%S", "2016-12-31 23:59:60", "leap second"),
        ("%Y-%m-%d %H:%M %Z", "2026-01-05 00:00 EST", "another form"),
        ("%Y-%m-%d %H:%M %Z", "2026-01-05 00:00 utc", "another form"),
        ("%Y-%m-%d %H:%M %z", "2026-01-05 00:00 +99:00", "no offset"),
        ("%Y-%m-%d %H:%M %z %Z", "2026-01-05 00:00 +0100 UTC", "is not"),
        ("%Y-%m-%d", "0000-01-01", "year 0"),
        ("%Y-%j", "2026-366", "no such day"),
        ("%Y %U %a", "2026 00 Sun", "no such day"),
        ("%G-W%V-%u", "2025-W53-1", "no week 53"),
    ],
)
def test_a_text_that_contradicts_itself_is_refused(format_: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_time_format(format_).read(text)


@pytest.mark.parametrize(
    ("format_", "text", "expected"),
    [
        ("%Y-%m-%d %H:%M", "2026-01-05 24:00", datetime(2026, 1, 6)),
        ("%d.%m.%Y %H:%M:%S", "31.12.2026 24:00:00", datetime(2027, 1, 1)),
        ("%Y-%m-%d %H:%M %Z", "2026-01-05 00:00 GMT", datetime(2026, 1, 5)),
        ("%Y-%m-%d %H:%M %z %Z", "2026-01-05 00:00 +0000 UTC", datetime(2026, 1, 5)),
        ("%Y-%m-%d %H:%M%z", "2026-01-05 01:00+01", datetime(2026, 1, 5)),
        ("%d %B %Y", "5 MAY 2026", datetime(2026, 5, 5)),
        ("%b %d %Y", "Jan  5 2026", datetime(2026, 1, 5)),
        ("%I %p %d/%m/%Y", "12 AM 05/01/2026", datetime(2026, 1, 5)),
        ("%I %p %d/%m/%Y", "12 pm 05/01/2026", datetime(2026, 1, 5, 12)),
    ],
)
def test_a_text_is_read(format_: str, text: str, expected: datetime) -> None:
    assert parse_time_format(format_).read(text) == ns_from_datetime(expected)


def test_nanoseconds_are_read_whole() -> None:
    found = parse_time_format("%Y-%m-%d %H:%M:%S.%f").read("1970-01-01 00:00:00.123456789")
    assert found == 123_456_789


def test_the_machine_s_zone_and_locale_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = locale.setlocale(locale.LC_TIME)
    others = [name for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8", "C") if _has_locale(name)]
    try:
        for name, zone in itertools.product(others, ("UTC", "America/New_York", "Asia/Tokyo")):
            locale.setlocale(locale.LC_TIME, name)
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            parse_time_format.cache_clear()
            assert parse_time_format("%d %b %Y %H:%M %Z").read("5 May 1970 00:00 UTC") == 124 * 86_400 * 10**9
            with pytest.raises(ValueError, match="another form"):
                parse_time_format("%d %b %Y %H:%M %Z").read("5 May 1970 00:00 EST")
    finally:
        locale.setlocale(locale.LC_TIME, kept)
        monkeypatch.undo()
        time.tzset()


def _has_locale(name: str) -> bool:
    try:
        locale.setlocale(locale.LC_TIME, name)
    except locale.Error:
        return False
    return True
