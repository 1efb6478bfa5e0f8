"""When reading a file has failed, was left half way or was interrupted, nothing of it still runs: the process ends as it should."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

READ = """
import sys
import gapless as gl
path, encoding = sys.argv[1:]
table = gl.create("t", index="ts", bucket="1h")
try:
    table.append_file(path, format=gl.Csv(encoding=encoding))
except gl.GaplessError as error:
    print(error.code)
"""

ABANDONED = """
import sys
from pathlib import Path
from gapless.files.ingest.files import open_file
path, encoding = sys.argv[1:]
batches = iter(open_file(Path(path), index=None))
print(next(batches).num_rows > 0)
"""

INTERRUPTED = """
import sys
import _thread, threading
import gapless as gl
path, encoding = sys.argv[1:]
table = gl.create("t", index="ts", bucket="1h")
def interrupt(rows, known):
    _thread.interrupt_main()
try:
    table.append_file(path, progress=interrupt)
except KeyboardInterrupt:
    print("interrupted")
"""

GOOD = "2026-01-05T00:00Z,1\n"
WRONG = {"a field too many": "2026-01-05T00:00Z,1,2\n", "text after a quote": '2026-01-05T00:00Z,"1"2\n', "no integer": "x,1\n"}


def large(path: Path, wrong: str, encoding: str = "utf-8") -> Path:
    text = "ts,v\n" + GOOD * 30_000 + wrong + GOOD * 400_000
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return path


def ended(folder: Path, program: str, path: Path, encoding: str = "utf-8") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), encoding],
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("wrong", "name", "encoding"),
    [
        (WRONG["a field too many"], "x.csv", "utf-8"),
        (WRONG["a field too many"], "x.csv", "cp1252"),
        (WRONG["text after a quote"], "x.csv.gz", "utf-8"),
        (WRONG["no integer"], "x.csv", "utf-16"),
    ],
)
def test_t2_20_a_process_ends_after_a_file_was_refused(tmp_path: Path, wrong: str, name: str, encoding: str) -> None:
    path = large(tmp_path / name, wrong, encoding)
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        code, said, error = ended(folder, READ, path, encoding)
        assert (code, error) == (0, "")
        assert said in ("unreadable-input", "invalid-value")


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_t2_20_a_process_ends_though_a_file_was_left_half_way(tmp_path: Path, name: str) -> None:
    path = large(tmp_path / name, "")
    for _ in range(2):
        assert ended(tmp_path, ABANDONED, path) == (0, "True", "")


def test_t2_20_a_process_ends_after_it_was_interrupted(tmp_path: Path) -> None:
    path = large(tmp_path / "x.csv", "")
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        assert ended(folder, INTERRUPTED, path) == (0, "interrupted", "")
