"""Each check of the contract of sources fails for one that is broken in that way; the page's own, of which they are made, passes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import Cursor, Polled, SourceCapabilities
from gapless.errors import NotSupported
from gapless.testing import SourceContract
from support.page_modules import module_of

LinesSource: Any = module_of("docs/howto/own-sinks-and-sources.md", "lines_source").LinesSource
COLUMNS = pa.schema([("v", pa.int64())])


class WholeFiles(LinesSource):  # type: ignore[misc]  # a page's code has no types
    """Its cursor says the file and not the line."""

    @property
    def cursor(self) -> Cursor:
        return Cursor(source="lines", state={"file": self.at, "line": 0})


class ForgetsItsLine(LinesSource):  # type: ignore[misc]
    """Started again, it goes on where it stood."""

    def start(self, cursor: Cursor | None = None) -> None:
        if not self.at:
            super().start(cursor)


class CountsFromTheEnd(LinesSource):  # type: ignore[misc]
    """Its cursor says how many rows are left."""

    def numbered(self) -> list[int]:
        paths = sorted(self.folder.glob("*.jsonl"))
        return [json.loads(line)["v"] for path in paths for line in path.read_text().splitlines()]

    @property
    def cursor(self) -> Cursor:
        done = sum(path.read_text().count("\n") for path in self.folder.glob("*.jsonl") if path.name < self.at) + self.line
        return Cursor(source="lines", state={"file": "", "line": len(self.numbered()) - done})

    def start(self, cursor: Cursor | None = None) -> None:
        super().start(None)
        if cursor is not None and (done := len(self.numbered()) - cursor.state["line"]):
            self.poll(done)


class NoCursorYet(LinesSource):  # type: ignore[misc]
    """Begun where there are no rows, it is at the end of what comes next."""

    @property
    def cursor(self) -> Cursor:
        return Cursor(source="lines", state={"file": self.at or "~", "line": self.line})


class LetsGo(LinesSource):  # type: ignore[misc]
    def acknowledge(self, checkpoint_id: int) -> None:
        for path in self.folder.glob("*.jsonl"):
            path.unlink()


class SaysNothingOfChanges(LinesSource):  # type: ignore[misc]
    @property
    def capabilities(self) -> SourceCapabilities:
        return SourceCapabilities(replays=True, retracts=True)


class GivesTheRest(LinesSource):  # type: ignore[misc]
    """Rows that were taken back make it give those around them again."""

    def poll(self, limit: int | None = None) -> Polled:
        if (self.folder / "gone").exists():
            self.at, self.line = "", 0
        polled: Polled = super().poll(limit)
        return polled


class FirstRowTwice(LinesSource):  # type: ignore[misc]
    def poll(self, limit: int | None = None) -> Polled:
        polled: Polled = super().poll(limit)
        return polled if limit is None else Polled([batch.slice(0, 1) for batch in polled] + polled.batches)


class LooksOnce(LinesSource):  # type: ignore[misc]
    """What is there when it begins is all."""

    def start(self, cursor: Cursor | None = None) -> None:
        super().start(cursor)
        self.newest = max((path.name for path in self.folder.glob("*.jsonl")), default="")

    def poll(self, limit: int | None = None) -> Polled:
        polled: Polled = super().poll(limit)
        return polled if self.at <= self.newest else Polled()


class OtherColumns(LinesSource):  # type: ignore[misc]
    def poll(self, limit: int | None = None) -> Polled:
        return Polled([batch.append_column("w", batch.column("v")) for batch in super().poll(limit)])


class AnyLimit(LinesSource):  # type: ignore[misc]
    def poll(self, limit: int | None = None) -> Polled:
        polled: Polled = super().poll(None if limit is None else max(int(limit), 1))
        return polled


class CursorOfPython(LinesSource):  # type: ignore[misc]
    @property
    def cursor(self) -> Cursor:
        return Cursor(source="lines", state={"file": self.at, "line": (self.line,)})


class AnyCursor(LinesSource):  # type: ignore[misc]
    def start(self, cursor: Cursor | None = None) -> None:
        self.at, self.line = "", 0


class ClosesOnce(LinesSource):  # type: ignore[misc]
    closed = False

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class EndsUndeclared(LinesSource):  # type: ignore[misc]
    @property
    def ended(self) -> bool:
        return not list(self.folder.glob("*.jsonl")) or bool(self.at)


class NoAliases(LinesSource):  # type: ignore[misc]
    def poll_next(self, limit: int | None = None) -> Polled:
        return Polled()


BROKEN_SOURCES: Mapping[str, Any] = {
    "test_a_cursor_goes_on_at_the_very_row": WholeFiles,
    "test_every_cursor_on_the_way_replays": ForgetsItsLine,
    "test_rows_that_come_later_change_nothing_before_them": CountsFromTheEnd,
    "test_a_cursor_before_the_first_row": NoCursorYet,
    "test_a_committed_checkpoint_lets_go_of_nothing_after_it": LetsGo,
    "test_what_is_declared": SaysNothingOfChanges,
    "test_rows_that_are_taken_back_are_told_or_not_given": GivesTheRest,
    "test_each_row_comes_once": FirstRowTwice,
    "test_rows_that_come_later": LooksOnce,
    "test_it_has_ended_where_it_says_that_it_ends": EndsUndeclared,
    "test_the_columns_are_known_before_the_first_row": OtherColumns,
    "test_a_limit_that_is_none_is_refused": AnyLimit,
    "test_a_cursor_is_text": CursorOfPython,
    "test_the_cursor_of_another_kind_is_refused": AnyCursor,
    "test_it_can_be_closed": ClosesOnce,
    "test_other_names": NoAliases,
}
"""By the name of a check, a source that is wrong in what it asks."""


class SourceChecks(SourceContract):
    """The contract of a source of the page, or one made of it; not collected by its name."""

    def __init__(self, folder: Path, make: Any) -> None:
        self.folder, self.make = folder, make
        folder.mkdir()

    def make_source(self) -> Any:
        return self.make(self.folder, COLUMNS)

    def feed(self, first: int, count: int) -> None:
        rows = "".join(json.dumps({"v": number}) + "\n" for number in range(first, first + count))
        (self.folder / f"{first:09}.jsonl").write_text(rows)

    def take_back(self, number: int) -> None:
        (self.folder / "gone").write_text(str(number))


def test_every_check_of_a_source_has_a_source_that_fails_it() -> None:
    assert {name for name in dir(SourceContract) if name.startswith("test_")} == BROKEN_SOURCES.keys()


@pytest.mark.parametrize("check", BROKEN_SOURCES)
def test_a_broken_source_fails_its_check(check: str, tmp_path: Path) -> None:
    getattr(SourceChecks(tmp_path / "right", LinesSource), check)()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(SourceChecks(tmp_path / "wrong", BROKEN_SOURCES[check]), check)()


class ReadsOnce(LinesSource):  # type: ignore[misc]
    """A feed that cannot be read again, and says so."""

    @property
    def capabilities(self) -> SourceCapabilities:
        return SourceCapabilities(replays=False, retracts=False)

    def start(self, cursor: Cursor | None = None) -> None:
        if cursor is not None:
            raise NotSupported("a feed of this kind cannot be read again", feature="replay")
        super().start()


def test_what_is_not_declared_is_not_asked_and_the_rest_is(tmp_path: Path) -> None:
    skipped = set()
    for number, check in enumerate(sorted(BROKEN_SOURCES)):
        try:
            getattr(SourceChecks(tmp_path / str(number), ReadsOnce), check)()
        except pytest.skip.Exception:
            skipped.add(check)
    assert skipped == {
        "test_a_cursor_goes_on_at_the_very_row",
        "test_every_cursor_on_the_way_replays",
        "test_rows_that_come_later_change_nothing_before_them",
        "test_a_cursor_before_the_first_row",
        "test_a_committed_checkpoint_lets_go_of_nothing_after_it",
    }
