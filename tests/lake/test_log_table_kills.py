"""A writer of runs that is killed, of each kind of table: by SIGKILL at each point of a run and at each change of any store, the table's own log with it.

A first run has failed behind its second page, so that the victim begins at a saved cursor, and so does whoever comes after it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import PartialFailure
from gapless.lake import Page
from gapless.lake.catalog.catalog import LEASE_S
from gapless.lake.catalog.sqlite import SqliteCatalog
from gapless.lake.lake import Lake
from gapless.lake.opening import init, open_lake
from gapless.runtime.environment import Environment, SystemClock
from gapless.store.local.store import LocalStore
from gapless.testing.store.case import in_child

PAGES, EACH, SAVED = 5, 3, 2
START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: dict[str, dict[str, Any]] = {
    "runs": {"key": ["id"]},
    "timeseries": {"kind": "timeseries", "index": "ts", "bucket": "1h"},
    "delta": {"kind": "delta"},
}


def page(number: int) -> list[dict[str, object]]:
    """Rows of an hour; from the third page on there is a column more."""
    more = {"new": number} if number >= SAVED else {}
    return [{"id": number * EACH + one, "ts": START + timedelta(hours=number, minutes=one), **more} for one in range(EACH)]


def source(asked: list[Any], fails_at: int | None = None) -> Callable[[Any], Iterator[Page]]:
    def pages(token: Any) -> Iterator[Page]:
        asked.append(token)
        for number in range(token or 0, PAGES):
            if number == fails_at:
                raise ConnectionError("no answer")
            yield Page(page(number), number + 1)

    return pages


def begun(root: Path, kind: str) -> None:
    """A lake whose table has what came before the page at which a first run failed."""
    lake = init(root)
    lake.create_table("t", **KINDS[kind])
    with pytest.raises(PartialFailure):
        lake.run("t", source([], SAVED), cursor="opaque")
    assert lake.table("t").cursor() == SAVED


class Later(SystemClock):
    """A clock by which the lease of whoever died is over."""

    def now_ns(self) -> int:
        return super().now_ns() + int((LEASE_S + 1) * 1e9)


def rows_of(lake: Lake) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.query("SELECT id, ts FROM t ORDER BY id").to_arrow().to_pylist()
    return found


def expected(pages: int) -> list[dict[str, Any]]:
    return [{"id": row["id"], "ts": row["ts"]} for number in range(pages) for row in page(number)]


def is_whole_or_absent(root: Path) -> bool:
    """Whether the victim's run is there: all its rows and its cursor, or nothing of it. Whoever is next goes on at the cursor that is there, the
    rows are each there once then, and the catalog is that of the manifests.
    """
    lake = open_lake(root)
    found = lake.table("t").manifests()
    whole = len(found) == 2
    assert [one.rows for one in found] == [SAVED * EACH, (PAGES - SAVED) * EACH][: 1 + whole]
    assert lake.table("t").cursor() == (PAGES if whole else SAVED)
    assert rows_of(lake) == expected(PAGES if whole else SAVED)
    asked: list[Any] = []
    next_writer = Lake(Environment(store=LocalStore(str(root)), clock=Later()), SqliteCatalog(str(root / "meta.sqlite")))
    report = next_writer.run("t", source(asked), cursor="opaque")
    assert asked == [PAGES if whole else SAVED]
    assert (report.rows, report.cursor) == (0 if whole else (PAGES - SAVED) * EACH, PAGES)
    assert rows_of(open_lake(root)) == expected(PAGES)
    news = (
        open_lake(root).query("SELECT new, count(*) AS n FROM t GROUP BY new ORDER BY new NULLS FIRST").to_arrow().to_pylist()
    )
    assert news == [{"new": None, "n": SAVED * EACH}, *({"new": one, "n": EACH} for one in range(SAVED, PAGES))]
    before = SqliteCatalog(str(root / "meta.sqlite")).content()
    (root / "meta.sqlite").unlink()
    open_lake(root)
    assert SqliteCatalog(str(root / "meta.sqlite")).content() == before
    return whole


POINTS = {
    "before the first page": "gapless.lake.run.read_page",
    "before the table's log is made or gets columns": "gapless.lake.run.make_log_table",
    "before the commit": "gapless.lake.run.Committer",
    "before the manifest": "gapless.lake.commits.create_once",
    "with the manifest, before the append": "gapless.lake.commits.Committer._append",
    "with the append, before its receipt": "gapless.lake.commits.put_receipt",
    "with the receipt, before the catalog": "gapless.lake.commits.record_manifest",
    "before the view": "gapless.lake.lake.LakeTable.write_view",
}
BEHIND = {
    "runs": ("with the receipt, before the catalog", "before the view"),
    "timeseries": ("with the append, before its receipt", "with the receipt, before the catalog", "before the view"),
    "delta": ("with the append, before its receipt", "with the receipt, before the catalog", "before the view"),
}
"""The points at which the run is there."""
NOT_REACHED = {
    "runs": {
        "before the table's log is made or gets columns",
        "with the manifest, before the append",
        "with the append, before its receipt",
    }
}


@pytest.mark.parametrize(
    ("kind", "point"), [(kind, point) for kind in KINDS for point in POINTS if point not in NOT_REACHED.get(kind, ())]
)
def test_run_08_sigkill_at_a_point_of_a_run_of_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, point: str
) -> None:
    root = tmp_path / "lake"
    begun(root, kind)

    def victim() -> None:
        monkeypatch.setattr(POINTS[point], lambda *_args, **_named: os.kill(os.getpid(), signal.SIGKILL))
        open_lake(root).run("t", source([]), cursor="opaque")

    assert in_child(victim) == signal.SIGKILL
    assert is_whole_or_absent(root) == (point in BEHIND[kind])


CHANGES = ("put", "put_if_match", "put_deferred", "put_after", "delete")


def dies_at(change: int, *, after: bool) -> None:
    """Have this process killed at the n-th change of any store, before or after it is made."""
    count = 0

    def dying(act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            try:
                return act(*args, **named) if after or count != change else None
            finally:
                if count == change:
                    os.kill(os.getpid(), signal.SIGKILL)

        return call

    for name in CHANGES:
        setattr(LocalStore, name, dying(getattr(LocalStore, name)))


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)], ids=["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_run_08_sigkill_at_each_change_of_any_store(tmp_path: Path, kind: str, after: bool) -> None:
    change, seen = 0, set[bool]()
    while True:
        change += 1
        root = tmp_path / str(change)
        begun(root, kind)

        def victim(root: Path = root, change: int = change) -> None:
            dies_at(change, after=after)
            open_lake(root).run("t", source([]), cursor="opaque")

        if in_child(victim) == 0:
            break
        seen.add(is_whole_or_absent(root))
    # The columns and their copy, a file, the manifest, the view; of a log its own columns, its file, its commit and the receipt, too.
    assert change > (5 if kind == "runs" else 8)
    assert seen == {False, True}


@pytest.mark.parametrize("kind", KINDS)
def test_run_08_a_first_run_that_is_killed_leaves_no_table_in_the_way(tmp_path: Path, kind: str) -> None:
    """The log of the table may be there, made by who died before its first commit."""
    change = 0
    while True:
        change += 1
        root = tmp_path / str(change)
        init(root).create_table("t", **KINDS[kind])

        def victim(root: Path = root, change: int = change) -> None:
            dies_at(change, after=True)
            open_lake(root).run("t", page(0), run_id="01K00000000000000000000000")

        killed = in_child(victim) != 0
        report = open_lake(root).run("t", page(0), run_id="01K00000000000000000000000")
        assert (report.rows, len(open_lake(root).table("t").manifests())) == (EACH, 1)
        assert rows_of(open_lake(root)) == expected(1)
        if not killed:
            assert report.already_applied
            break
    assert change > 3
