"""Runs: all of one counts or nothing, partial ones go on at the cursor, the same rows are the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    CommitConflict,
    CorruptTable,
    CoverageOverlap,
    InvalidOption,
    InvalidQuery,
    LogWarning,
    NullKey,
    PartialFailure,
    TableExists,
    TableNotFound,
)
from gapless.lake import Page
from gapless.lake.catalog.sqlite import SqliteCatalog
from gapless.lake.lake import Lake
from gapless.lake.opening import init, open_lake

PAGES, EACH = 10, 4


def page_rows(number: int) -> list[dict[str, object]]:
    return [{"id": number * EACH + row, "page": number} for row in range(EACH)]


class Api:
    """Ten pages by a token, of which one may fail."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.asked: list[int] = []

    def __call__(self, token: Any) -> Iterator[Page]:
        for number in range(1 if token is None else token, PAGES + 1):
            self.asked.append(number)
            if number == self.fails_at:
                raise ConnectionError("no answer, though the password hunter2 was sent")
            yield Page(page_rows(number), number + 1)


def ids(lake: Lake, table: str) -> list[int]:
    return sorted(lake.query(f"SELECT id FROM {table}").to_arrow().column("id").to_pylist())


ALL_IDS = sorted(row["id"] for number in range(1, PAGES + 1) for row in page_rows(number))  # type: ignore[type-var]


def test_a_run_that_fails_at_page_7_goes_on_there(lake: Lake) -> None:
    table = lake.create_table("orders")
    with pytest.raises(PartialFailure) as caught:
        lake.run("orders", Api(fails_at=7), cursor="opaque")
    assert (caught.value.rows, caught.value.cursor) == (6 * EACH, 7)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert "hunter2" not in str(caught.value)
    (partial,) = table.manifests()
    assert (partial.status, partial.failure, partial.rows) == ("partial", "ConnectionError", 6 * EACH)
    assert b"hunter2" not in partial.encode()
    again = Api()
    report = lake.run("orders", again, cursor="opaque")
    assert again.asked == [7, 8, 9, 10]
    assert (report.status, report.cursor) == ("complete", PAGES + 1)
    assert ids(lake, "orders") == ALL_IDS


def test_a_run_that_fails_at_its_first_page_leaves_nothing(lake: Lake) -> None:
    table = lake.create_table("orders")
    with pytest.raises(ConnectionError):
        lake.run("orders", Api(fails_at=1), cursor="opaque")
    assert table.manifests() == ()
    assert table.cursor() is None


def test_pages_without_a_cursor_are_all_there_or_none(lake: Lake) -> None:
    table = lake.create_table("orders")

    def pages(_: object) -> Iterator[Page]:
        yield Page(page_rows(1))
        raise ConnectionError

    with pytest.raises(ConnectionError):
        lake.run("orders", pages)
    assert table.manifests() == ()
    with pytest.raises(InvalidOption, match="without a cursor"):
        lake.run("orders", lambda _: iter([Page(page_rows(1))]), cursor="opaque")


def test_a_page_that_cannot_be_taken_ends_a_run_as_one_that_fails(lake: Lake) -> None:
    lake.create_table("orders", key=["id"])
    pages = [Page(page_rows(1), 2), Page([{"id": None, "page": 2}], 3)]
    with pytest.raises(PartialFailure, match="key") as caught:
        lake.run("orders", lambda _: iter(pages), cursor="opaque")
    assert isinstance(caught.value.__cause__, NullKey)
    assert caught.value.cursor == 2


def test_an_empty_run_keeps_the_cursor(lake: Lake) -> None:
    table = lake.create_table("orders")
    lake.run("orders", Api(), cursor="opaque")
    lake.run("orders", lambda _: iter([Page([], 99)]), cursor="opaque")
    lake.run("orders", lambda _: iter([]), cursor="opaque")
    assert table.cursor() == PAGES + 1
    assert [one.rows for one in table.manifests()] == [PAGES * EACH, 0, 0]


def files_below(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.rglob("*.parquet")}


def test_the_same_input_twice_is_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        lake = init(tmp_path / name)
        lake.create_table("orders")
        lake.run("orders", Api(), cursor="opaque")
        lake.run(
            "orders", pa.table({"id": range(5), "t": [datetime(2026, 1, 1, tzinfo=UTC)] * 5, "s": ["a", None, "b", "a", "c"]})
        )
        made.append(files_below(tmp_path / name))
    assert made[0] == made[1]
    assert len(made[0]) == 2


def test_two_nodes_write_into_one_run(tmp_path: Path) -> None:
    one = init(tmp_path / "lake", node="one")
    one.create_table("orders")
    two, run = open_lake(tmp_path / "lake", node="two"), one.new_run_id()
    one.run("orders", page_rows(1), run_id=run)
    two.run("orders", page_rows(2), run_id=run)
    assert [(m.run, m.node) for m in one.table("orders").manifests()] == [(run, "one"), (run, "two")]
    assert ids(one, "orders") == [row["id"] for row in (*page_rows(1), *page_rows(2))]
    (folder,) = (tmp_path / "lake/tables/orders/data/runs").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["one", "two"]


def test_a_run_of_a_node_is_committed_once(tmp_path: Path, lake: Lake) -> None:
    lake.create_table("orders")
    run = lake.new_run_id()
    first = lake.run("orders", page_rows(1), run_id=run)
    again = lake.run("orders", page_rows(2), run_id=run)
    assert again.already_applied
    assert again.rows == first.rows
    assert ids(lake, "orders") == [row["id"] for row in page_rows(1)]
    with pytest.raises(InvalidOption, match="run_id"):
        lake.run("orders", page_rows(2), run_id="../../x")


def test_another_run_under_the_same_name_is_refused(lake: Lake) -> None:
    """Both looked before either had committed."""
    lake.create_table("orders")
    run = lake.new_run_id()

    def rows(_: object) -> object:
        lake.run("orders", page_rows(1), run_id=run)
        return page_rows(2)

    with pytest.raises(CommitConflict):
        lake.run("orders", rows, run_id=run)
    assert ids(lake, "orders") == [row["id"] for row in page_rows(1)]


def test_run_09_only_files_that_a_manifest_names_are_read(tmp_path: Path, lake: Lake) -> None:
    run = lake.new_run_id()
    for name in ("calls", "calls_reg"):
        lake.create_table(name)
        lake.run(name, [{"id": len(name)}], run_id=run)
    folder = tmp_path / f"lake/tables/calls/data/runs/run-{run}/main"
    (part,) = folder.glob("*.parquet")
    (theirs,) = (tmp_path / f"lake/tables/calls_reg/data/runs/run-{run}/main").glob("*.parquet")
    shutil.copy(theirs, folder / "part-00001-0000000000000000.parquet")
    for stray in (folder / "_tmp" / part.name, folder.parent / "other" / part.name, tmp_path / "lake/tables/calls" / part.name):
        stray.parent.mkdir(exist_ok=True)
        shutil.copy(part, stray)
    assert ids(lake, "calls") == [len("calls")]
    assert ids(open_lake(tmp_path / "lake"), "calls_reg") == [len("calls_reg")]


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_torn_manifest_is_absent_and_can_be_committed_again(tmp_path: Path, lake: Lake, cut: int) -> None:
    table = lake.create_table("orders")
    run = lake.new_run_id()
    lake.run("orders", page_rows(1), run_id=run)
    manifest = tmp_path / "lake" / table.manifests()[0].path
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:cut])
    with pytest.warns(LogWarning, match="as if it were not there"):
        assert lake.table("orders").manifests() == ()
    (tmp_path / "lake/meta.sqlite").unlink()
    with pytest.warns(LogWarning):
        lake.run("orders", page_rows(1), run_id=run)
    assert ids(lake, "orders") == [row["id"] for row in page_rows(1)]


def test_an_altered_manifest_is_absent(tmp_path: Path, lake: Lake) -> None:
    table = lake.create_table("orders")
    lake.run("orders", page_rows(1))
    manifest = tmp_path / "lake" / table.manifests()[0].path
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows": 4', b'"rows": 5'))
    with pytest.warns(LogWarning, match="checksum"):
        assert open_lake(tmp_path / "lake").table("orders").manifests() == ()


def test_a_manifest_that_lies_elsewhere_is_not_that_of_the_place(tmp_path: Path, lake: Lake) -> None:
    table = lake.create_table("orders")
    lake.run("orders", page_rows(1))
    folder = (tmp_path / "lake" / table.manifests()[0].path).parent
    shutil.copytree(folder, folder.parent / "copied")
    with pytest.warns(LogWarning, match="It is that of"):
        assert len(lake.table("orders").manifests()) == 1


HOUR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "options"), [("timeseries", {"index": "ts", "bucket": "1h", "entity": ["id"]}), ("delta", {})]
)
class TestTablesWithALog:
    def rows(self, number: int) -> list[dict[str, object]]:
        return [{"ts": HOUR + timedelta(hours=number), "id": number}]

    def test_a_run_is_a_commit_whose_operation_id_is_the_run(self, tmp_path: Path, kind: str, options: Any) -> None:
        lake = init(tmp_path / "lake")
        table = lake.create_table("t", kind=kind, **options)
        reports = [lake.run("t", self.rows(number)) for number in range(2)]
        assert ids(lake, "t") == [0, 1]
        where = str(tmp_path / "lake/tables/t/table")
        log: Any = gl.open(where) if kind == "timeseries" else gl.delta.open(where)
        for number, (report, manifest) in enumerate(zip(reports, table.manifests(), strict=True)):
            assert manifest.operation == f"lake-run:{report.run}/main"
            assert log.append(self.rows(number), operation_id=manifest.operation).already_applied
        assert table.to_arrow().num_rows == 2

    def test_pages_are_one_commit_and_go_on_at_the_cursor(self, tmp_path: Path, kind: str, options: Any) -> None:
        lake = init(tmp_path / "lake")
        table = lake.create_table("t", kind=kind, **options)

        def pages(token: Any, fails: bool = False) -> Iterator[Page]:
            for number in range(token or 0, 5):
                if fails and number == 3:
                    raise ConnectionError
                yield Page([{**self.rows(number)[0], **({"more": 1} if number == 2 else {})}], number + 1)

        with pytest.raises(PartialFailure):
            lake.run("t", lambda token: pages(token, fails=True), cursor="opaque")
        lake.run("t", pages, cursor="opaque")
        assert ids(lake, "t") == [0, 1, 2, 3, 4]
        assert [row["more"] for row in lake.query("SELECT more FROM t ORDER BY id").to_arrow().to_pylist()] == [
            None, None, 1, None, None,
        ]  # fmt: skip
        assert len(table.manifests()) == 2

    def test_a_manifest_whose_commit_never_came_does_not_count(self, tmp_path: Path, kind: str, options: Any) -> None:
        lake = init(tmp_path / "lake")
        table = lake.create_table("t", kind=kind, **options)
        lake.run("t", self.rows(0), cursor=None)
        (counted,) = table.manifests()
        folder = (tmp_path / "lake" / counted.path).parent
        # What a writer leaves that dies between the two: its manifest, under another run.
        from dataclasses import replace

        run = lake.new_run_id()
        left = replace(counted, run=run, operation=f"lake-run:{run}/main")
        (tmp_path / "lake" / left.path).parent.mkdir(parents=True)
        (tmp_path / "lake" / left.path).write_bytes(left.encode())
        assert open_lake(tmp_path / "lake").table("t").manifests() == (counted,)
        # And one that dies behind the commit: without a receipt the log says it, and meta.sqlite does not know the run.
        (folder / "_commit.json").unlink()
        SqliteCatalog(str(tmp_path / "lake" / "meta.sqlite")).forget_run("t", counted.run, counted.node)
        assert lake.table("t").manifests() == (counted,)
        open_lake(tmp_path / "lake")
        assert (folder / "_commit.json").exists()


def test_a_refused_commit_leaves_no_manifest(tmp_path: Path) -> None:
    lake = init(tmp_path / "lake")
    table = lake.create_table("t", kind="timeseries", index="ts", bucket="1h")
    lake.run("t", [{"ts": HOUR, "id": 1}])
    with pytest.raises(CoverageOverlap):
        lake.run("t", [{"ts": HOUR, "id": 2}])
    assert len(table.manifests()) == len(list((tmp_path / "lake").rglob("_manifest.json"))) == 1


def test_places(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="no lake"):
        open_lake(tmp_path)
    lake = init(tmp_path)
    with pytest.raises(TableExists, match="lake"):
        init(tmp_path)
    lake.create_table("t")
    with pytest.raises(TableExists):
        lake.create_table("t")
    with pytest.raises(gl.errors.NotSupported, match="disk of this machine"):
        init("memory://lake")
    (tmp_path / "lake.toml").write_text("[lake]\nformat = 2\n")
    with pytest.raises(gl.errors.UnsupportedTable):
        open_lake(tmp_path)
    (tmp_path / "lake.toml").write_text("what")
    with pytest.raises(CorruptTable):
        open_lake(tmp_path)


def test_queries_only_read(lake: Lake) -> None:
    lake.create_table("t")
    lake.run("t", [{"a": 1}])
    for sql in ("CREATE TABLE x (a INT)", "SELECT 1; SELECT 2", "", "selct", "SELECT * FROM nothing", None):
        with pytest.raises(InvalidQuery):
            lake.query(sql)  # type: ignore[arg-type]
    assert lake.query("SELECT a FROM t WHERE a = ?", [1]).to_arrow().num_rows == 1
    with pytest.raises(gl.errors.SchemaMismatch, match="fingerprint"):
        lake.query("SELECT 1", fingerprints={"t": "0"})
    assert lake.query("SELECT 1", fingerprints={"t": lake.table("t").fingerprint}).count() == 1


def test_what_a_lake_table_cannot_be_is_refused_by_name(lake: Lake) -> None:
    for options, match in (
        ({"kind": "iceberg"}, "kind"), ({"kind": "delta", "key": "id"}, "key"), ({"kind": "timeseries", "index": "ts"}, "bucket"),
        ({"index": "ts"}, "index"), ({"key": ["a", "a"]}, "key"), ({"drift": "freez"}, "freeze"), ({"drift": 3}, "policy"),
    ):  # fmt: skip
        with pytest.raises(InvalidOption, match=match):
            lake.create_table("t", **options)


def test_a_manifest_that_is_put_anew_is_read_anew(lake: Lake, tmp_path: Path) -> None:
    """One Lake holds on to manifests that it has read, and sees what others did to them."""
    lake.create_table("t")
    lake.run("t", [{"id": 1}])
    lake.run("t", [{"id": 2}])
    first, second = lake.table("t").manifests()
    assert ids(lake, "t") == [1, 2]
    path = tmp_path / "lake" / second.path
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.warns(LogWarning, match="as if it were not there"):
        assert ids(lake, "t") == [1]
    path.write_bytes(whole)
    assert ids(lake, "t") == [1, 2]
    path.unlink()
    assert lake.table("t").manifests() == (first,)


def test_progress_is_told_behind_each_page_and_counts_what_is_there(lake: Lake) -> None:
    lake.create_table("t")
    lake.run("t", [{"id": 0}], pipeline="before")
    lake.set_drift("t", {"add": "quarantine"})
    told: list[gl.lake.RunProgress] = []

    def pages(token: Any) -> Iterator[Page]:
        for number in range(token or 0, 3):
            # What was told of the page before is told by now.
            assert len(told) == number
            yield Page([{"id": 2 * number}, {"id": 2 * number + 1, "odd": 1}], number + 1)
        yield Page([], 9)

    report = lake.run("t", pages, cursor="opaque", progress=told.append)
    assert [(one.rows, one.quarantined_rows, one.pages, one.cursor) for one in told] == [
        (1, 1, 1, 1),
        (2, 2, 2, 2),
        (3, 3, 3, 3),
    ]
    assert {(one.table, one.pipeline, one.run) for one in told} == {("t", "t", report.run)}
    assert (told[-1].rows, told[-1].cursor) == (report.rows, report.cursor)
    assert [one.seconds for one in told] == sorted(one.seconds for one in told)
    assert told[0].rows_per_second > 0


def test_an_error_of_who_watches_is_not_one_of_the_source(lake: Lake) -> None:
    table = lake.create_table("t")

    def watch(progress: gl.lake.RunProgress) -> None:
        if progress.pages == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lake.run("t", Api(), cursor="opaque", progress=watch)
    assert (table.manifests(), table.cursor()) == ((), None)
    assert lake.run("t", Api(), cursor="opaque").rows == PAGES * EACH


@pytest.mark.parametrize("kind", ["timeseries", "delta"])
def test_progress_of_a_table_with_a_log(lake: Lake, kind: str) -> None:
    lake.create_table("t", kind=kind, **({"index": "ts", "bucket": "1h"} if kind == "timeseries" else {}))
    told: list[gl.lake.RunProgress] = []

    def pages(_token: Any) -> Iterator[Page]:
        for number in range(3):
            yield Page([{"ts": HOUR + timedelta(hours=number)}], number)

    lake.run("t", pages, cursor="opaque", progress=told.append)
    assert [one.rows for one in told] == [1, 2, 3]
