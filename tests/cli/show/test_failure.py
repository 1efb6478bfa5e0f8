"""Messages speak of options and commands, not of keywords and methods."""

from __future__ import annotations

import pytest

from gapless.cli.show.failure import in_options


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ('Pass on_overlap="skip" to keep what is there', 'Pass --on-overlap "skip" to keep what is there'),
        ("start='2013-13-01' cannot be read", "--start '2013-13-01' cannot be read"),
        ("Use gl.open(path), or another path", "Append to it, or create another path"),
        ('Make one with gl.create(path, index="ts", bucket="1h"), or check the path',
         "Make one with `gapless create PATH --index ts --bucket 1h`, or check the path"),
        ("look for commit_id 7 in table.history(); if it is absent, append again",
         "look for commit_id 7 in `gapless history PATH`; if it is absent, append again"),
        ("Open it with gl.open(path, upgrade=True), or pass --upgrade, if you want that", "Pass --upgrade, if you want that"),
        ("Set conditional_put='etag' in storage_options, or", "Set conditional_put='etag' with --storage-option NAME=VALUE, or"),
        ("use where= for any other", "use `gapless scan --where` for any other"),
        ("timestamp_format is set as well", "--timestamp-format is set as well"),
        ("Use table.sql for it", "Use `gapless sql` for it"),
        ('Pass where="day = 5"; delete(where="true") deletes all rows', 'Say --where "day = 5"; --where true deletes all rows'),
        ('Cast, rename or leave out what differs; schema_mode="merge" adds new columns',
         "Cast, rename or leave out what differs; --add-columns adds new columns"),
        ("Pass version=3 or time=datetime(2026, 1, 5, tzinfo=UTC)", "Pass --version 3 or --time 2026-01-05T00:00Z"),
        # What a user wrote, or what a column is called, stays as it is.
        ("column 'timestamp_unit' is not there", "column 'timestamp_unit' is not there"),
        ("origin='EWR' and 2 more", "origin='EWR' and 2 more"),
        ("the table already covers [2013-02-01T05:00:00Z, …)", "the table already covers [2013-02-01T05:00:00Z, …)"),
    ],
)  # fmt: skip
def test_a_message_in_the_words_of_the_command_line(python: str, shell: str) -> None:
    assert in_options(python) == shell
