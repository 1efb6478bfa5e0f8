"""Lengths of time as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gapless.errors import InvalidOption
from gapless.model.time.duration import parse_duration


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10 seconds", timedelta(seconds=10)),
        ("1 Second", timedelta(seconds=1)),
        ("5m", timedelta(minutes=5)),
        ("250ms", timedelta(milliseconds=250)),
        ("90 min", timedelta(minutes=90)),
        (" 2 w ", timedelta(weeks=2)),
        ("0", timedelta(0)),
        ("0 hours", timedelta(0)),
        ("9999999d", timedelta(days=9_999_999)),
        (timedelta(hours=3), timedelta(hours=3)),
    ],
)
def test_a_length_of_time(text: object, length: timedelta) -> None:
    assert parse_duration(text, "every") == length


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10 parsecs", "Did you mean 'secs'?"),
        ("10 minuets", "Did you mean 'minutes'?"),
        ("10", "Write the unit too, such as 10s"),
        ("1 month", "Say it in days"),
        ("2y", "Say it in days"),
        ("1.5h", "whole number and a unit"),
        ("-1s", "whole number and a unit"),
        ("", "whole number and a unit"),
        ("soon", "whole number and a unit"),
        ("10000000d", "less than 10,000,000 days"),
        ("9" * 400 + "s", "less than 10,000,000 days"),
        (timedelta(seconds=-1), "0 or more"),
        (60, "whole number and a unit"),
        (None, "whole number and a unit"),
    ],
)
def test_what_is_none_is_refused_with_the_nearest_unit(text: object, said: str) -> None:
    with pytest.raises(InvalidOption, match="is no length of time") as refused:
        parse_duration(text, "every")
    assert said in str(refused.value)
    assert (refused.value.option, refused.value.value) == ("every", text)
