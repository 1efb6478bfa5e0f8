"""`compact` from the shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import gapless as gl

Gapless = Callable[..., Any]


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
