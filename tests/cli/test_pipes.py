"""Input that comes through a pipe is read once: `-`, /dev/stdin, process substitution, named pipes, open files."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl

CSV = "ts,v\n2026-01-05T00:00Z,1\n2026-01-05T01:00Z,2\n"
LINES = '{"ts":"2026-01-05T00:00Z","v":1}\n{"ts":"2026-01-05T01:00Z","v":2}\n'


@pytest.fixture
def bash(tmp_path: Path, environment: dict[str, str]) -> Callable[[str], subprocess.CompletedProcess[bytes]]:
    """Runs a script of bash beside a table `t`; `gapless` in it is the command."""
    gl.create(tmp_path / "t", index="ts", bucket="1h")
    (tmp_path / "ok.csv").write_text(CSV)
    (tmp_path / "ok.jsonl").write_text(LINES)
    pq.write_table(pa.table({"ts": pa.array([0, 1], pa.timestamp("s", "UTC")), "v": [1, 2]}), tmp_path / "ok.parquet")
    prelude = f'set -o pipefail; gapless() {{ "{sys.executable}" -m gapless "$@"; }}\n'

    def script(text: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["bash", "-c", prelude + text], cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False
        )

    return script


@pytest.mark.parametrize(
    "command",
    [
        "cat ok.csv | gapless append t /dev/stdin --format csv",
        "cat ok.csv | gapless append t - --format csv",
        "gapless append t <(cat ok.csv) --format csv",
        "gapless append t - --format csv < ok.csv",
        "cat ok.parquet | gapless append t -",
        "gzip -c ok.csv | gapless append t - --format csv",
        "iconv -f utf-8 -t utf-16 ok.csv | gapless append t - --format csv",
        "(cat ok.csv; sleep 0.2; echo 2026-01-05T02:00Z,3) | gapless append t - --format csv --on-overlap skip",
    ],
)
def test_t2_21_a_pipe_is_read_once(
    bash: Callable[[str], subprocess.CompletedProcess[bytes]], tmp_path: Path, command: str
) -> None:
    ended = bash(command)
    assert ended.returncode == 0, ended.stderr.decode()
    found = gl.open(tmp_path / "t").scan().to_arrow()["v"].to_pylist()
    assert found == ([1, 2, 3] if "sleep" in command else [1, 2])


def test_t2_21_what_a_shell_read_already_is_not_read_again(
    bash: Callable[[str], subprocess.CompletedProcess[bytes]], tmp_path: Path
) -> None:
    (tmp_path / "titled.csv").write_text("a title\n" + CSV)
    ended = bash("(read -r title; gapless append t - --format csv) < titled.csv")
    assert ended.returncode == 0, ended.stderr.decode()
    assert gl.open(tmp_path / "t").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("cat ok.csv | gapless append t -", "the format of standard input is not known"),
        ("gapless append t <(cat ok.csv)", "the format of /dev/fd/.* is not known"),
        ("cat ok.parquet | gapless append t - --adopt copy --format parquet", "cannot be adopted.*pipe"),
        ("cat ok.csv | gapless append t - /dev/stdin --format csv", "named twice"),
        ("printf 'ts,v\\nx' | gapless append t - --format csv", "line 2 of standard input"),
        ("gapless append t - --format csv <&-", "standard input"),
    ],
)
def test_t2_21_what_cannot_be_read_from_a_pipe_says_why(
    bash: Callable[[str], subprocess.CompletedProcess[bytes]], tmp_path: Path, command: str, says: str
) -> None:
    ended = bash(command)
    assert ended.returncode in (1, 2), ended.stderr.decode()
    assert re.search(says, ended.stderr.decode().replace("\n", " ")), ended.stderr.decode()
    assert gl.open(tmp_path / "t").version == 1


def test_t2_21_nothing_is_left_of_the_copy(bash: Callable[[str], subprocess.CompletedProcess[bytes]], tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    ended = bash("cat ok.csv | TMPDIR=copies gapless append t - --format csv")
    assert ended.returncode == 0, ended.stderr.decode()
    assert list((tmp_path / "copies").iterdir()) == []


def test_t2_21_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(CSV))
    writer.start()
    assert table.append_file(pipe, format="csv").rows == 2
    writer.join()


@pytest.mark.parametrize(
    ("opened", "file_format"),
    [
        (lambda _: io.BytesIO(CSV.encode()), "csv"),
        (lambda _: io.StringIO(CSV), "csv"),
        (lambda folder: (folder / "ok.csv").open("rb"), "csv"),
        (lambda folder: (folder / "ok.csv").open(encoding="utf-8"), "csv"),
        (lambda _: io.BytesIO(LINES.encode()), gl.Json()),
    ],
)
def test_t2_21_an_open_file_is_read_from_where_it_stands(
    tmp_path: Path, opened: Callable[[Path], IO[Any]], file_format: object
) -> None:
    (tmp_path / "ok.csv").write_text(CSV)
    source = opened(tmp_path)
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    with contextlib.closing(source):
        assert table.append_file(source, format=file_format).rows == 2
    delta = gl.delta.create(tmp_path / "d", pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())]))
    assert delta.append_file([io.BytesIO(CSV.encode()), io.BytesIO(CSV.encode())], format="csv").rows == 4


def test_t2_21_an_open_file_says_no_format(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    with pytest.raises(gl.GaplessError, match="format of an open BytesIO is not known"):
        table.append_file(io.BytesIO(CSV.encode()))


def test_t2_21_an_object_that_is_no_file_is_refused(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    with pytest.raises(gl.GaplessError, match="names no file to append"):
        table.append_file(7)  # type: ignore[arg-type]  # wrong on purpose
