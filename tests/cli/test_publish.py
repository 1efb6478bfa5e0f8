"""`publish` from the shell, and what other commands say of tables that are published."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from cli.conftest import Gapless
from gapless.errors import StoreUnavailable
from gapless.publish.delta.publisher import DeltaPublisher
from support.clocked_table import rows_at


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose rows lie in its log, in a column of a type that was widened, at version 4."""
    made = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"inline_bytes": 100_000})
    made.append(rows_at(0, 2).append_column("n", pa.array([1, 2], pa.int16())))
    made.append(rows_at(5, 2).append_column("n", pa.array([3, 4], pa.int16())))
    made.widen_column("n", "float32")
    return tmp_path / "t"


def test_a_rewrite_is_named_and_done(inside: Gapless, table: Path) -> None:
    refused = inside("publish", table, "--format", "delta")
    assert refused.code != 0
    assert "exclude each other" in refused.err
    gl.open(table).set_properties({"inline_bytes": 0})
    refused = inside("publish", table, "--format", "delta")
    assert "gapless publish --rewrite" in refused.err
    done = inside("publish", table, "--format", "delta", "--rewrite")
    assert (done.code, done.out) == (0, "delta: version 7 is version 0 there.\n")
    assert gl.delta.open(table).scan().to_arrow().sort_by("ts")["n"].to_pylist() == [1, 2, 3, 4]
    again = json.loads(inside("publish", table, "--format", "delta", "--rewrite", "--json").out)
    assert (again["version"], again["published"][0]["behind"]) == (7, 0)


def test_a_rewrite_inlines_no_more(inside: Gapless, table: Path) -> None:
    assert inside("publish", table, "--format", "delta", "--rewrite").code == 0
    assert gl.open(table).properties.inline_bytes == 0
    assert "Name a format" in inside("publish", table, "--rewrite").err


def test_what_is_not_published_is_said_by_every_command(inside: Gapless, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert inside("publish", table, "--format", "delta", "--rewrite").code == 0

    def fails(*_: object, **__: object) -> int:
        raise StoreUnavailable("the bucket is away")

    gl.open(table).append(rows_at(20, 1).append_column("n", pa.array([1], pa.float32())))
    monkeypatch.setattr(DeltaPublisher, "publish", fails)
    for words in (("compact", table), ("restore", table, "--version", "7"), ("expire", table, "--keep-versions", "1")):
        assert "Not published as delta yet: StoreUnavailable: the bucket is away" in inside(*words).out, words
