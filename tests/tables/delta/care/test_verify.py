"""`gl.verify` on a Delta table: silent where all is well, and each kind of damage by its code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "delta"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Twelve commits with a checkpoint at version 10, two partitions, a deletion vector, a struct and a NaN."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("s", pa.struct([("x", pa.int32())]))])
    table = gl.delta.create(
        tmp_path / "t",
        schema,
        partition_by=["day"],
        properties={"delta.checkpointInterval": 10, "delta.enableDeletionVectors": True},
    )
    for number in range(10):
        row = {"id": number, "day": "mon" if number % 2 else "tue", "v": float("nan"), "s": {"x": number}}
        table.append(pa.Table.from_pylist([row, {**row, "id": 100 + number, "v": 0.5, "s": None}], schema))
    table.delete("id = 3")
    return tmp_path / "t"


def commit_of(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def codes(root: Path, *, deep: bool = False) -> list[str]:
    return [finding.code for finding in gl.verify(root, deep=deep).findings]


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the actions of a commit."""
    actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        change(action)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_table_has_no_finding(root: Path, deep: bool) -> None:
    seen: list[tuple[int, int]] = []
    report = gl.verify(root, deep=deep, progress=lambda done, total: seen.append((done, total)))
    assert (report.ok, report.findings) == (True, ())
    assert (report.version, report.commits, report.segments, report.unchecked) == (11, 12, 10, 10)
    assert seen[-1] == (10, 10)
    assert gl.delta.open(root).verify(deep=deep) == report


def test_a_column_of_nulls_of_which_rows_were_deleted_is_sound(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path, properties={"delta.enableDeletionVectors": True})
    table.append(pa.table({"id": [1, 2, 3], "note": pa.nulls(3, pa.string())}))
    table.delete("id = 2")
    assert codes(tmp_path, deep=True) == []


@pytest.mark.parametrize(
    "table", sorted(path.parent for path in FIXTURES.glob("*/table/_delta_log")), ids=lambda p: p.parent.name
)
def test_tables_of_other_writers_are_sound(table: Path) -> None:
    assert [finding.what for finding in gl.verify(table, deep=True).problems] == []


def test_lost_and_damaged_commits_are_named(root: Path) -> None:
    commit_of(root, 4).unlink()
    assert codes(root) == ["commit-missing"]
    commit_of(root, 11).write_text("{", encoding="utf-8")
    report = gl.verify(root)
    assert [finding.code for finding in report.problems] == ["commit-damaged", "commit-missing"]
    assert report.segments == 0


def test_a_log_that_was_cleaned_up_to_a_checkpoint_is_sound(root: Path) -> None:
    for version in range(10):
        commit_of(root, version).unlink()
    assert codes(root, deep=True) == []


def test_a_checkpoint_that_is_damaged_or_says_something_else_is_named(root: Path) -> None:
    stored = root / "_delta_log" / f"{10:020d}.checkpoint.parquet"
    whole = stored.read_bytes()
    stored.write_bytes(whole[:100])
    assert codes(root) == ["checkpoint-damaged"]
    stored.write_bytes(whole)
    rewrite(commit_of(root, 5), lambda action: action.get("add", {}).update(path="another.parquet"))
    report = gl.verify(root)
    assert [finding.code for finding in report.problems] == ["checkpoint-differs", "segment-missing"]
    assert "other files" in report.problems[0].what


def test_a_hint_that_names_no_checkpoint_is_a_note(root: Path) -> None:
    (root / "_delta_log" / "_last_checkpoint").write_text('{"version": 7, "size": 1}', encoding="utf-8")
    report = gl.verify(root)
    assert (report.ok, [finding.code for finding in report.notes]) == (True, ["checkpoint-hint"])


def test_files_that_are_missing_altered_or_no_parquet_are_named(root: Path) -> None:
    files = sorted(root.glob("day=*/*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-1])
    files[2].write_bytes(b"\0" * files[2].stat().st_size)
    assert sorted(codes(root)) == ["segment-altered", "segment-missing", "segment-unreadable"]


def test_a_lost_deletion_vector_makes_its_file_unreadable(root: Path) -> None:
    table = gl.delta.open(root)
    table.append(pa.table({"id": pa.array(range(1_000, 11_000), pa.int64()), "day": ["wed"] * 10_000}))
    table.delete("id in ({})".format(", ".join(map(str, range(1_000, 11_000, 7)))))
    vectors = list(root.rglob("deletion_vector_*.bin"))
    assert len(vectors) == 1
    vectors[0].unlink()
    report = gl.verify(root)
    assert [finding.code for finding in report.problems] == ["segment-unreadable"]
    assert "deletion vector" in report.problems[0].what


@pytest.mark.parametrize(
    ("stats", "deep", "found"),
    [
        ({"numRecords": 3}, False, ["rows-differ"]),
        ({"numRecords": 2, "minValues": {"id": 105}}, False, []),
        ({"numRecords": 2, "minValues": {"id": 105}}, True, ["stats-differ"]),
        ({"numRecords": 2, "maxValues": {"s": {"x": 3}}}, True, ["stats-differ"]),
        ({"numRecords": 2, "nullCount": {"s": {"x": 0}}}, True, ["stats-differ"]),
        ({"numRecords": 2, "nullCount": {"s": {"x": 1}}}, True, []),
    ],
)
def test_statistics_are_held_against_the_rows(root: Path, stats: dict[str, Any], deep: bool, found: list[str]) -> None:
    stored = root / "_delta_log" / f"{10:020d}.checkpoint.parquet"
    stored.unlink()

    def change(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"]["stats"] = json.dumps(stats)

    rewrite(commit_of(root, 6), change)
    assert [finding.code for finding in gl.verify(root, deep=deep).problems] == found


def test_a_table_that_this_release_cannot_read_says_why(root: Path) -> None:
    commit_of(root, 12).write_text(
        json.dumps(
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}}
        )
        + "\n",
        encoding="utf-8",
    )
    report = gl.verify(root)
    assert [finding.code for finding in report.problems] == ["commit-unsupported"]
    assert "'x'" in report.problems[0].what


def test_repair_mends_nothing_of_a_log_that_is_other_writers_too(root: Path) -> None:
    report = gl.repair(root)
    assert (report.ok, report.steps) == (True, ())
    (root / "_delta_log" / f"{0:020}.json").write_text("{")
    report = gl.repair(root, apply=True)
    assert (report.steps, [one.code for one in report.left]) == ((), ["commit-damaged"])
