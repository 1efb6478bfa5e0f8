"""`compact`, `vacuum` and `expire` from the shell."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import gapless as gl
from cli.conftest import Gapless
from gapless.cli.maintain import parse_age_text
from gapless.errors import InvalidOption
from gapless.formats.timeseries.actions import RemoveSegment
from support.clocked_table import commit_actions, rows_at


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five hours of two symbols in ten segments, at version 11."""
    made = gl.create(tmp_path / "prices", index="ts", bucket="1h", entity="symbol")
    for hour in range(5):
        for symbol in "AB":
            made.append([{"symbol": symbol, "ts": datetime(2026, 1, 5, hour, tzinfo=UTC), "close": 1.5 * hour}])
    return tmp_path / "prices"


def test_small_segments_become_one(inside: Gapless, table: Path) -> None:
    before = gl.open(table).scan().to_arrow()
    plan = inside("compact", table, "--dry-run")
    assert (plan.code, plan.err) == (0, "")
    assert plan.out.startswith("1 bin: 10 segments of 10\n  1. 10 segments, 10 rows, 0.0 MiB towards 128.0 MiB each (10 small)")
    assert gl.open(table).version == 11
    done = inside("compact", table)
    assert (done.code, done.err) == (0, "")
    assert done.out == "Version 12: 10 segments of 0.0 MiB became 1 of 0.0 MiB, 10 rows.\n"
    assert inside("compact", table).out == "Nothing to compact; the table stays at version 12.\n"
    assert gl.open(table).scan().to_arrow().equals(before)


def test_all_options_reach_the_table(inside: Gapless, table: Path) -> None:
    done = inside(
        "compact",
        table,
        "--cluster-by",
        "close",
        "--cluster-by",
        "ts",
        "--codec",
        "snappy",
        "--target-mib",
        "1",
        "--window",
        "1d",
        "--json",
    )
    assert json.loads(done.out)["segments_after"] == 1
    (segment,) = gl.open(table).segments()
    assert segment.clustered_by == ("close", "ts")
    assert json.loads(inside("compact", table, "--resort", "--dry-run", "--json").out)["bins"][0]["causes"] == {"not sorted": 1}
    assert inside("compact", table, "--resort").code == 0
    assert gl.open(table).segments()[0].clustered_by == ()


def test_a_damaged_segment_is_named_and_the_exit_code_is_1(inside: Gapless, table: Path) -> None:
    victim = gl.open(table).segments()[3].path
    data = bytearray((table / victim).read_bytes())
    data[20] ^= 4
    (table / victim).write_bytes(bytes(data))
    done = inside("compact", table)
    assert done.code == 1
    left, said = done.out.splitlines()
    assert left.startswith(f"Left 1 segment: segment {victim} does not have the bytes it was written with")
    assert said.startswith("Version 12: 9 segments of")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--window", "soon"), "--window"), (("--codec", "zip"), "zip"), (("--cluster-by", "nope"), "nope"),
        (("--cluster-by", "close", "--resort"), "--resort with --cluster-by"), (("--target-mib", "0"), "target-mib"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(inside: Gapless, table: Path, words: tuple[str, ...], said: str) -> None:
    ended = inside("compact", table, *words)
    assert ended.code == 2
    assert said in ended.err


ORPHAN = "data/12345678-1234-4234-8234-123456789abc-0_0-0-0_20200101000000000.parquet"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three appends, of which the first was taken away again, and what a crash left six years ago."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    for hour in range(3):
        table.append(rows_at(hour))
    commit_actions(table, RemoveSegment(table.segments()[0].path))
    (tmp_path / "t" / ORPHAN).write_bytes(b"torn")
    os.utime(tmp_path / "t" / ORPHAN, (0, 0))
    return tmp_path / "t"


def files(place: Path) -> int:
    return len(list((place / "data").iterdir()))


def test_vacuum_says_first_and_does_when_told(place: Path, inside: Gapless) -> None:
    ended = inside("vacuum", place)
    assert (ended.code, files(place)) == (0, 4)
    assert f"{ORPHAN}" in ended.out
    assert "orphan 1 file: an interrupted write left it" in ended.out
    assert "retained 1 file" in ended.out
    assert ended.out.endswith("1 file of 4 bytes would be deleted with --apply. Nothing was changed.\n")
    ended = inside("vacuum", place, "--apply")
    assert ended.out.endswith("1 file of 4 bytes deleted.\n")
    assert files(place) == 3
    assert inside("vacuum", place, "--apply").out.endswith("Nothing to delete.\n")


def test_expire_and_then_vacuum_free_what_old_versions_had(place: Path, inside: Gapless) -> None:
    assert inside("expire", place, "--keep-versions", 1).out == "5 versions expired; the earliest that is kept is 6.\n"
    assert inside("expire", place, "--keep-versions", 1).out == "No version to let go of.\n"
    document = json.loads(inside("vacuum", place, "--older-than", "0", "--apply", "--json").out)
    assert (document["deleted"], document["dry_run"], files(place)) == (2, False, 2)
    assert {one["reason"] for one in document["files"] if one["goes"]} == {"expired", "orphan"}
    assert {"path", "size", "reason", "version", "tag", "goes"} == set(document["files"][0])
    assert gl.verify(place).ok


def test_expire_as_json_and_with_the_log(place: Path, inside: Gapless) -> None:
    document = json.loads(inside("expire", place, "--older-than", "30d", "--clean-log", "--json").out)
    assert document == {
        "table": str(place), "version": 5, "earliest": 1, "expired": 0, "tags": [], "removed": [], "waits_for": [],
        "published": {},
    }  # fmt: skip
    assert "Nothing of the log to remove." in inside("expire", place, "--keep-versions", 2, "--clean-log").out


def test_vacuum_lists_every_file_where_asked(place: Path, inside: Gapless) -> None:
    lines = inside("vacuum", place, "--files").out.splitlines()
    assert sum("data/" in line for line in lines) == 4
    assert sum("data/" in line and line.split()[-1] == "live" for line in lines) == 2


def test_what_is_typed_wrong_is_told_in_words_of_the_command_line(place: Path, inside: Gapless) -> None:
    ended = inside("expire", place)
    assert ended.code == 2
    assert "Pass --keep-versions 100, --older-than 30d, or both" in " ".join(ended.err.split())
    assert inside("expire", place, "--keep-versions", 0).code == 2
    assert inside("vacuum", place, "--older-than", "soon").code == 2
    assert files(place) == 4


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800), ("2 w", 1_209_600)]
)
def test_an_age(text: str, seconds: int) -> None:
    assert parse_age_text("older-than", text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "1mo", "1e3s", "10000000d", "999999999w"])
def test_no_age(text: str) -> None:
    with pytest.raises(InvalidOption, match="is no length of time"):
        parse_age_text("older-than", text)
