"""Each check of the contract of sinks fails for one that is broken in that way; the page's own, of which they are made, passes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import PreparedCommit, SinkCapabilities
from gapless.testing import SinkContract
from support.page_modules import module_of

LinesSink: Any = module_of("docs/howto/own-sinks-and-sources.md", "lines_sink").LinesSink


class Typed(LinesSink):  # type: ignore[misc]  # a page's code has no types
    """The page's sink, with what mypy must know of it."""

    rows: list[Any]
    schema: Any


class KeepsRows(Typed):
    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        rows = list(self.rows)
        prepared: PreparedCommit = super().prepare(checkpoint_id)
        self.rows = rows
        return prepared


class OneSlot(Typed):
    """Each prepared commit takes the place of the one before."""

    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        for path in [path for earlier in self.pending() for path in earlier.data_files]:
            (self.folder / path).write_text("")
        prepared: PreparedCommit = super().prepare(checkpoint_id)
        return prepared


class HighestOnly(Typed):
    """Knows the highest checkpoint, and lets one be passed over."""

    def check_order(self, prepared: PreparedCommit) -> None:
        pass

    def is_committed(self, prepared: PreparedCommit) -> bool:
        last = self.last_committed()
        return last is not None and last >= prepared.checkpoint_id


class AnyNumber(Typed):
    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        self.last = -1
        prepared: PreparedCommit = super().prepare(max(checkpoint_id, 0))
        return prepared


class CountsFromItsStart(Typed):
    def last_committed(self) -> int | None:
        return None if self.last < 0 else 0


class ConstantApp(Typed):
    """One id for all pipelines of a target."""

    def __init__(self, folder: Path, pipeline: str, name: str, generation: int = 1) -> None:
        super().__init__(folder, "all", name)


class TakesOthers(Typed):
    def check_mine(self, prepared: PreparedCommit) -> None:
        pass


class LeavesAborted(Typed):
    def abort(self, prepared: PreparedCommit | None = None) -> bool:
        self.rows = []
        return prepared is None or not self.is_committed(prepared)


class TakesBackTheCommitted(Typed):
    def is_committed(self, prepared: PreparedCommit) -> bool:
        return False

    def finalize(self, prepared: PreparedCommit) -> Any:
        LinesSink.check_mine(self, prepared)
        text = json.dumps(
            {"app": prepared.operation.app, "checkpoint_id": prepared.checkpoint_id, "files": prepared.data_files}
        )
        path = self.folder / f"commits/{len(self.commits()):06}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return dataclasses.replace(super().finalize(dataclasses.replace(prepared, files=())), already_committed=False)


class AbortsAll(Typed):
    def abort(self, prepared: PreparedCommit | None = None) -> bool:
        for one in self.pending() if prepared is None else ():
            super().abort(one)
        done: bool = super().abort(prepared)
        return done


class KeepsUnprepared(Typed):
    def abort(self, prepared: PreparedCommit | None = None) -> bool:
        return True if prepared is None else bool(super().abort(prepared))


class CommitsWhenClosed(Typed):
    def close(self) -> None:
        for one in self.pending():
            self.finalize(one)


class DeclaresAnotherMode(Typed):
    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(modes=frozenset({"upsert"}))


class Doubles(Typed):
    """Commits whatever it is given."""

    def finalize(self, prepared: PreparedCommit) -> Any:
        made = dataclasses.replace(prepared, operation=dataclasses.replace(prepared.operation, sequence=len(self.commits())))
        return dataclasses.replace(super().finalize(made), checkpoint_id=prepared.checkpoint_id)

    def check_order(self, prepared: PreparedCommit) -> None:
        pass


class LooksFirst(Typed):
    """Asks whether it is committed, and then commits without a condition; all four have asked by then."""

    meeting = threading.Barrier(4)

    def is_committed(self, prepared: PreparedCommit) -> bool:
        known = bool(super().is_committed(prepared))
        if not known and threading.current_thread() is not threading.main_thread():
            with contextlib.suppress(threading.BrokenBarrierError):
                self.meeting.wait(10)
        return known

    def commits(self) -> list[Any]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("commits/*.json"))]

    def check_order(self, prepared: PreparedCommit) -> None:
        number, files = threading.get_ident(), prepared.data_files
        body = {"app": prepared.operation.app, "checkpoint_id": prepared.checkpoint_id, "files": files}
        (self.folder / "commits").mkdir(exist_ok=True)
        draft = self.folder / f"commits/.{number}"
        draft.write_text(json.dumps(body))
        draft.rename(self.folder / f"commits/{number}.json")  # the others read it whole, or not yet


class InMemory(Typed):
    """The document is stored, and its rows are where the sink was made."""

    mine: dict[str, list[str]]

    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        prepared: PreparedCommit = super().prepare(checkpoint_id)
        self.mine = {path: (self.folder / path).read_text().splitlines() for path in prepared.data_files}
        for path in prepared.data_files:
            (self.folder / path).write_text("")
        return prepared

    def finalize(self, prepared: PreparedCommit) -> Any:
        for path, lines in getattr(self, "mine", {}).items():
            (self.folder / path).write_text("\n".join(lines))
        return super().finalize(prepared)


class TakesRetractions(Typed):
    def initialize(self, schema: pa.Schema) -> None:
        self.schema = schema


class CommitsWhenPrepared(Typed):
    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        prepared: PreparedCommit = super().prepare(checkpoint_id)
        self.finalize(prepared)
        return prepared


class CountsWrong(Typed):
    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        prepared: PreparedCommit = super().prepare(checkpoint_id)
        return dataclasses.replace(prepared, files=())


class RepeatsWhenEmpty(Typed):
    before: tuple[Any, ...] = ()

    def finalize(self, prepared: PreparedCommit) -> Any:
        self.before = prepared.files or self.before
        return super().finalize(dataclasses.replace(prepared, files=self.before))


class TakesHalf(Typed):
    """Keeps rows of a batch that it refuses."""

    def write(self, batch: Any) -> int:
        self.rows += batch.to_pylist()[:1]
        held = len(self.rows)
        written = int(super().write(batch))
        del self.rows[held - 1]
        return written


class NeedsNoColumns(Typed):
    def write(self, batch: Any) -> int:
        self.schema = self.schema or batch.schema
        return int(super().write(batch))


class TablesOnly(Typed):
    def write(self, batch: Any) -> int:
        return 0 if isinstance(batch, pa.RecordBatch) else int(super().write(batch))


class NoAliases(Typed):
    def write_batch(self, batch: Any) -> int:
        return int(batch.num_rows)


BROKEN_SINKS: Mapping[str, Any] = {
    "test_checkpoints_follow_each_other": KeepsRows,
    "test_several_are_prepared_before_the_first_is_finalized": OneSlot,
    "test_a_checkpoint_is_never_passed_over": HighestOnly,
    "test_numbers_only_grow": AnyNumber,
    "test_a_sink_that_is_made_again_goes_on": CountsFromItsStart,
    "test_pipelines_and_generations_do_not_see_each_other": ConstantApp,
    "test_the_prepared_commit_of_another_is_refused": TakesOthers,
    "test_an_aborted_checkpoint_is_gone": LeavesAborted,
    "test_what_is_committed_stays": TakesBackTheCommitted,
    "test_aborting_nothing_frees_what_was_written_alone": AbortsAll,
    "test_closing_gives_up_what_was_not_prepared": CommitsWhenClosed,
    "test_what_is_declared": DeclaresAnotherMode,
    "test_finalize_commits_once": Doubles,
    "test_racing_finalizers_commit_once": LooksFirst,
    "test_a_prepared_commit_outlives_its_sink": InMemory,
    "test_a_prepared_commit_outlives_its_process": InMemory,
    "test_rows_that_are_taken_back_are_refused": TakesRetractions,
    "test_rows_are_seen_once_they_are_finalized": CommitsWhenPrepared,
    "test_a_prepared_commit_says_what_it_has": CountsWrong,
    "test_a_checkpoint_without_rows_changes_nothing": RepeatsWhenEmpty,
    "test_rows_that_do_not_fit_are_refused_whole": TakesHalf,
    "test_nothing_is_taken_before_it_knows_the_columns": NeedsNoColumns,
    "test_record_batches_are_taken_as_tables_are": TablesOnly,
    "test_other_names": NoAliases,
}
"""By the name of a check, a sink that is wrong in what it asks."""


class SinkChecks(SinkContract):
    """The contract of a sink of the page, or one made of it; not collected by its name."""

    def __init__(self, folder: Path, make: Any) -> None:
        self.folder, self.make = folder, make

    def make_sink(self, pipeline: str = "orders", generation: int = 1) -> Any:
        return self.make(self.folder, pipeline, "lines", generation)

    def stored(self) -> Iterable[Mapping[str, Any]]:
        files = [path for commit in LinesSink(self.folder, "any", "reader").commits() for path in commit["files"]]
        return [json.loads(line) for path in files for line in (self.folder / path).read_text().splitlines()]

    def rows(self, first: int, count: int) -> pa.Table:
        rows = super().rows(first, count)
        return rows.set_column(0, "ts", rows["ts"].cast("int64"))


def test_every_check_of_a_sink_has_a_sink_that_fails_it() -> None:
    assert {name for name in dir(SinkContract) if name.startswith("test_")} == BROKEN_SINKS.keys()


@pytest.mark.parametrize("check", BROKEN_SINKS)
def test_a_broken_sink_fails_its_check(check: str, tmp_path: Path) -> None:
    getattr(SinkChecks(tmp_path / "right", LinesSink), check)()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(SinkChecks(tmp_path / "wrong", BROKEN_SINKS[check]), check)()
