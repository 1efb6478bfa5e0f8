"""The exit code of every error, by its code in the catalogue: what cron and CI rely on. A line here changes never."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from cli.conftest import Gapless
from gapless.cli.show.failure import failure_of
from gapless.errors import GaplessError

EXIT_CODES = {
    "access-denied": 1, "sync-conflict": 1, "ambiguous-time": 1, "commit-conflict": 1, "conflict": 1, "corrupt-table": 1, "data": 1,
    "duplicate-key": 1, "fill-stopped": 1, "gapless": 1, "import-refused": 1, "invalid-record": 1, "invalid-value": 1, "lease-refused": 1, "null-key": 1, "object-changed": 1, "partial-failure": 1, "pipeline-failed": 1,
    "object-exists": 1, "object-not-found": 1, "prepared-files-missing": 1, "schema-mismatch": 1, "storage-full": 1, "store": 1, "store-unavailable": 1,
    "foreign-commit": 1, "spark-not-started": 1, "stream-restarted": 1, "table": 1, "unreadable-input": 1, "unsupported-table": 1, "unsupported-type": 1, "upgrade-needed": 1,
    "call": 2, "not-replicated": 2, "read-only-replica": 2, "invalid-change": 2, "invalid-filter": 2, "invalid-option": 2, "invalid-path": 2, "invalid-pipeline": 2, "invalid-query": 2, "query-limit-exceeded": 2,
    "invalid-time": 2, "no-checkpointing": 2, "not-supported": 2, "retracting-input": 2, "sink-cannot-dedup": 2,
    "source-cannot-replay": 2, "operation-reused": 2, "table-exists": 2, "table-not-found": 2, "unknown-column": 2,
    "version-not-found": 2, "coverage-overlap": 4, "commit-outcome-unknown": 5,
}  # fmt: skip
DOCS = Path(__file__).resolve().parents[2] / "docs" / "errors.md"


def catalogue(kind: type[GaplessError] = GaplessError) -> dict[str, type[GaplessError]]:
    """All errors by their code."""
    found = {kind.code: kind}
    for one in kind.__subclasses__():
        found |= catalogue(one) if one.__module__.startswith("gapless.") else {}
    return found


def test_every_code_of_the_catalogue_has_the_exit_code_that_it_always_had() -> None:
    assert {code: kind.exit_code for code, kind in catalogue().items()} == EXIT_CODES


@pytest.mark.parametrize("code", sorted(EXIT_CODES))
def test_the_command_line_and_the_documentation_have_the_exit_code_of_each(code: str) -> None:
    kind = catalogue()[code]
    assert failure_of(kind("it broke")).exit_code == EXIT_CODES[code]
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("|") and f"| `{code}` |" in line]
    assert [line.rstrip(" |").rpartition("| ")[2] for line in rows] == [str(EXIT_CODES[code])]


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (OSError(5, "no"), 1), (MemoryError(), 1), (ZeroDivisionError(), 1)]
)
def test_what_is_no_error_of_ours_has_its_exit_code(error: BaseException, code: int) -> None:
    assert failure_of(error).exit_code == code


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("codes")
    (place / "a.csv").write_text("ts,v\n2026-01-01T00:00:00Z,1\n2026-01-01T02:00:00Z,2\n")
    (place / "null.csv").write_text("ts,v\n,1\n")
    (place / "quote.csv").write_text('ts,v\n2026-01-02T00:00:00Z,"x\n')
    gl.create(place / "t", index="ts", bucket="1h").append_file(place / "a.csv")
    gl.create(place / "torn", index="ts", bucket="1h").append_file(place / "a.csv")
    next((place / "torn").rglob("*.parquet")).write_bytes(b"torn")
    gl.delta.create(str(place / "d"), pa.schema([("a", pa.int64())])).append([{"a": 1}])
    return place


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        ("info t", 0, ""),
        ("gaps t", 0, ""),
        ("gaps t --fail-if-any", 3, ""),
        ("verify t", 0, ""),
        ("verify torn --deep", 1, ""),
        ("--version", 0, ""),
        ("nonsense", 2, "usage"),
        ("scan", 2, "usage"),
        ("info none", 2, "table-not-found"),
        ("create t --index ts --bucket 1h", 2, "table-exists"),
        ("create new --index ts --bucket 7q", 2, "invalid-option"),
        ("at t --version 99", 2, "version-not-found"),
        ("scan t --columns w", 2, "unknown-column"),
        ("scan t --start yesterdayish", 2, "invalid-time"),
        ("sql t selct", 2, "invalid-query"),
        ("append t none.csv", 2, "invalid-path"),
        ("append t a.csv", 4, "coverage-overlap"),
        ("append t null.csv", 1, "null-key"),
        ("append t quote.csv", 1, "unreadable-input"),
        ("scan torn", 1, "corrupt-table"),
    ],
)
def test_commands_end_with_their_exit_code(words: str, exit_code: int, code: str, place: Path, gapless: Gapless) -> None:
    ended = gapless(*words.split(), cwd=place)
    assert (ended.code, f"[{code}]" in ended.err) == (exit_code, bool(code)), ended.err
