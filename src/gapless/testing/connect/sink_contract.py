"""The contract of a sink, as a test class: subclass it and get the whole suite.

```python
import pytest
from gapless.testing import SinkContract

class TestMySink(SinkContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):            # whatever the sink needs; pytest makes a new instance for each test
        self.place = tmp_path

    def make_sink(self, pipeline="orders", generation=1):
        return MySink(self.place, pipeline, generation)

    def stored(self):
        return MyReader(self.place).rows()
```

Within one test every call of `make_sink` must give a new sink, as another process would make it, into one target. Where a sink declares
that it does not promise something (`Sink.capabilities`), the tests of that are skipped.

Its parts here: checkpoints in their order, what is taken back, promises that are declared, and what every sink does.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from gapless.connect.sinks.protocol import CommitInfo, Sink, SinkCapabilities
from gapless.errors import CommitConflict, GaplessError
from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.tables.shared.prepared import PreparedCommit
from gapless.testing.connect.rows import Row, applied, numbered, sorted_rows, told
from gapless.testing.store.case import in_child, race


class SinkCase:
    """A test class over sinks: its subclass says how one is made, and what its target holds."""

    mode: str = "append"
    """What `finalize` does with rows: "append", "upsert", "overwrite", "delete" or "cdc"; of another kind, override `after` too."""
    key: tuple[str, ...] = ("id",)
    """By which columns rows are found, where the mode does that."""
    other_process: bool = True
    """Whether a process that is forked here reaches the target: False where it lies in memory, or its client does not survive a fork."""

    def make_sink(self, pipeline: str = "orders", generation: int = 1) -> Sink:
        """A new sink of that pipeline and generation, not initialized, into this test's target."""
        raise NotImplementedError

    def stored(self) -> Iterable[Row]:
        """All rows that readers of the target see now, each as a mapping; best by a reader that shares no code with the sink."""
        raise NotImplementedError

    def initial(self) -> Iterable[Row]:
        """The rows that the target holds when a test begins; none, unless a subclass put some there."""
        return ()

    def rows(self, first: int, count: int) -> pa.Table:
        """`count` rows to write, those of number `first` and on; never the same for two numbers, and always in the same columns."""
        if self.mode == "cdc":
            return told(first, count)
        return numbered(first, count).select(self.key) if self.mode == "delete" else numbered(first, count)

    def unfit(self) -> object:
        """Rows that the sink must not take; by default a column is missing and another is too many."""
        rows = self.rows(90, 2)
        return rows.rename_columns([f"not {name}" if at == 0 else name for at, name in enumerate(rows.column_names)])

    def after(self, before: Iterable[Row], rows: list[Row]) -> list[dict[str, Any]]:
        """The target's rows after a checkpoint of these rows was committed."""
        return applied(self.mode, before, rows, self.key)

    # -- what tests do ---------------------------------------------------------------------------------------------------

    def started(self, pipeline: str = "orders", generation: int = 1) -> Sink:
        """A new sink, initialized."""
        sink = self.make_sink(pipeline, generation)
        sink.initialize(self.rows(0, 0).schema)
        return sink

    def prepared(self, sink: Sink, checkpoint_id: int, first: int, count: int = 3) -> PreparedCommit:
        """A checkpoint of such rows."""
        assert sink.write(self.rows(first, count)) == count
        return sink.prepare(checkpoint_id)

    def assert_holds(self, *checkpoints: tuple[int, int]) -> None:
        """Hold the target to what it must have after checkpoints of `rows(first, count)`, in this order."""
        wanted: Iterable[Row] = self.initial()
        for first, count in checkpoints:
            wanted = self.after(wanted, self.rows(first, count).to_pylist())
        assert sorted_rows(self.stored()) == sorted_rows(wanted)

    def require(self, declared: str) -> SinkCapabilities:
        """The declarations; skips the test where this one is not made."""
        capabilities = self.make_sink().capabilities
        if not getattr(capabilities, declared):
            pytest.skip(f"the sink declares {declared}=False")
        return capabilities


class OrderContract(SinkCase):
    """Checkpoints of one sink, and of several into one target."""

    def test_checkpoints_follow_each_other(self) -> None:
        """Each has the rows since the one before."""
        sink = self.started()
        for number in range(4):
            info = sink.finalize(self.prepared(sink, number, 3 * number))
            assert (info.checkpoint_id, info.already_committed) == (number, False)
        self.assert_holds((0, 3), (3, 3), (6, 3), (9, 3))

    def test_several_are_prepared_before_the_first_is_finalized(self) -> None:
        """A backlog is committed in its order, and what is written meanwhile is of the next checkpoint."""
        sink = self.started()
        waiting = [self.prepared(sink, number, 3 * number) for number in range(3)]
        sink.write(self.rows(20, 1))
        self.assert_holds()
        versions = [sink.finalize(one).version for one in waiting]
        assert versions == sorted(versions)
        self.assert_holds((0, 3), (3, 3), (6, 3))
        assert sink.prepare(3).records_written == 1

    def test_a_checkpoint_is_never_passed_over(self) -> None:
        """Finalized in the wrong order, the later one is refused, or both get there all the same."""
        sink = self.started()
        first, second = self.prepared(sink, 1, 0), self.prepared(sink, 2, 3)
        try:
            sink.finalize(second)
        except CommitConflict:
            self.assert_holds()
        sink.finalize(first)
        sink.finalize(second)
        self.assert_holds((0, 3), (3, 3))

    def test_numbers_only_grow(self) -> None:
        """A number stands for its rows: it is not given to others, and none before it is."""
        sink = self.started()
        sink.finalize(self.prepared(sink, 5, 0))
        sink.write(self.rows(3, 3))
        for number in (5, 4, -1):
            with pytest.raises(GaplessError):
                sink.prepare(number)
        sink.finalize(sink.prepare(6))
        self.assert_holds((0, 3), (3, 3))

    def test_a_sink_that_is_made_again_goes_on(self) -> None:
        """Numbers and rows of the one before are known."""
        first = self.started()
        first.finalize(self.prepared(first, 1, 0))
        first.close()
        second = self.started()
        second.finalize(self.prepared(second, 2, 3))
        self.assert_holds((0, 3), (3, 3))
        assert second.last_committed() in (2, None)

    def test_pipelines_and_generations_do_not_see_each_other(self) -> None:
        """The same number of another pipeline, or of one that was made anew, is another checkpoint."""
        for at, (pipeline, generation) in enumerate([("orders", 1), ("trips", 1), ("orders", 2)]):
            sink = self.started(pipeline, generation)
            assert sink.last_committed() is None
            info = sink.finalize(self.prepared(sink, 1, 3 * at))
            assert not info.already_committed
        self.assert_holds((0, 3), (3, 3), (6, 3))

    def test_the_prepared_commit_of_another_is_refused(self) -> None:
        """Neither finalized nor removed."""
        mine, theirs = self.started(), self.started("trips")
        prepared = self.prepared(mine, 1, 0)
        for act in (theirs.finalize, theirs.abort):
            with pytest.raises(GaplessError):
                act(prepared)
        assert theirs.pending() == []
        mine.finalize(prepared)
        self.assert_holds((0, 3))


class AbortContract(SinkCase):
    """What is taken back."""

    def test_an_aborted_checkpoint_is_gone(self) -> None:
        """Its rows come again under another number, once."""
        sink = self.started()
        prepared = self.prepared(sink, 1, 0)
        assert sink.abort(prepared)
        assert sink.abort(prepared)
        assert sink.pending() == []
        self.assert_holds()
        sink.finalize(self.prepared(sink, 2, 0))
        self.assert_holds((0, 3))

    def test_what_is_committed_stays(self) -> None:
        """An abort after the commit says that it is too late."""
        sink = self.started()
        prepared = self.prepared(sink, 1, 0)
        sink.finalize(prepared)
        assert not sink.abort(prepared)
        self.assert_holds((0, 3))

    def test_aborting_nothing_frees_what_was_written_alone(self) -> None:
        """Prepared commits stay; rows that were not prepared are of no checkpoint any more."""
        sink = self.started()
        prepared = self.prepared(sink, 1, 0)
        sink.write(self.rows(3, 3))
        assert sink.abort(None)
        assert sink.pending() == [prepared]
        sink.finalize(prepared)
        sink.finalize(self.prepared(sink, 2, 6))
        self.assert_holds((0, 3), (6, 3))

    def test_closing_gives_up_what_was_not_prepared(self) -> None:
        """Prepared commits stay."""
        sink = self.started()
        prepared = self.prepared(sink, 1, 0)
        sink.write(self.rows(3, 3))
        sink.close()
        sink.close()
        self.assert_holds()
        again = self.started()
        again.finalize(prepared)
        self.assert_holds((0, 3))


class PromisesContract(SinkCase):
    """What a sink declares is so."""

    def test_what_is_declared(self) -> None:
        """Before `initialize`, and the mode of this test is one of them."""
        capabilities = self.make_sink().capabilities
        assert isinstance(capabilities, SinkCapabilities)
        assert self.mode in capabilities.modes

    def test_finalize_commits_once(self) -> None:
        """Whoever calls it, and however often and late."""
        self.require("exactly_once")
        sink = self.started()
        prepared = self.prepared(sink, 1, 0)
        first = sink.finalize(prepared)
        assert not first.already_committed
        again = sink.finalize(prepared)
        assert (again.checkpoint_id, again.version, again.already_committed) == (1, first.version, True)
        sink.finalize(self.prepared(sink, 2, 3))
        later = self.started().finalize(PreparedCommit.from_json(prepared.to_json()))
        assert (later.checkpoint_id, later.already_committed) == (1, True)
        assert later.version >= first.version
        self.assert_holds((0, 3), (3, 3))

    def test_racing_finalizers_commit_once(self) -> None:
        """Four processes that recover at once."""
        self.require("exactly_once")
        prepared = self.prepared(self.started(), 1, 0)
        sinks = [self.started() for _ in range(4)]
        race(CommitConflict, [lambda sink=sink: sink.finalize(prepared) for sink in sinks])  # type: ignore[misc]  # a default is how a loop's value is kept
        assert self.started().finalize(prepared).already_committed
        self.assert_holds((0, 3))

    def test_a_prepared_commit_outlives_its_sink(self) -> None:
        """Another instance finds it, and finalizes it from its document."""
        self.require("prepared_is_durable")
        prepared = [self.prepared(sink, number, 3 * number) for sink in [self.started()] for number in (1, 2)]
        other = self.started()
        assert other.pending() == prepared
        for one in prepared:
            assert not other.finalize(PreparedCommit.from_json(one.to_json())).already_committed
        assert other.pending() == []
        self.assert_holds((3, 3), (6, 3))

    def test_a_prepared_commit_outlives_its_process(self) -> None:
        """A process prepares one, begins the next, and is killed."""
        self.require("prepared_is_durable")
        if not self.other_process or not hasattr(os, "fork"):
            pytest.skip("no forked process reaches the target")
        with tempfile.TemporaryFile() as document:

            def prepare() -> NoReturn:
                sink = self.started()
                document.write(self.prepared(sink, 1, 0).to_json().encode())
                document.flush()
                sink.write(self.rows(3, 3))
                os.kill(os.getpid(), signal.SIGKILL)
                raise AssertionError

            assert in_child(prepare) == signal.SIGKILL
            document.seek(0)
            prepared = PreparedCommit.from_json(document.read())
        self.assert_holds()
        sink = self.started()
        assert sink.pending() == [prepared]
        sink.finalize(prepared)
        sink.finalize(self.prepared(sink, 2, 3))
        self.assert_holds((0, 3), (3, 3))

    def test_rows_that_are_taken_back_are_refused(self) -> None:
        """Unless it declares that it takes rows that say what became of them; before the first row, and with columns of its own it goes on."""
        sink, plain = self.make_sink(), self.rows(0, 0).schema
        told = plain if CHANGE_TYPE in plain.names else plain.append(pa.field(CHANGE_TYPE, pa.string()))
        if sink.capabilities.takes_changes:
            sink.initialize(told)
            return
        with pytest.raises(GaplessError):
            sink.initialize(told)
        sink.initialize(plain)
        sink.finalize(self.prepared(sink, 1, 0))
        self.assert_holds((0, 3))


class SinkContract(OrderContract, AbortContract, PromisesContract):
    """The whole contract: the three parts above, and what every sink does."""

    def test_rows_are_seen_once_they_are_finalized(self) -> None:
        """Neither after `write` nor after `prepare`."""
        sink = self.started()
        self.assert_holds()
        assert sink.write(self.rows(0, 2)) == 2
        assert sink.write(self.rows(2, 1)) == 1
        self.assert_holds()
        prepared = sink.prepare(1)
        self.assert_holds()
        info = sink.finalize(prepared)
        assert isinstance(info, CommitInfo)
        assert info.commit_timestamp is None or info.commit_timestamp.utcoffset() == timedelta(0)
        self.assert_holds((0, 3))

    def test_a_prepared_commit_says_what_it_has(self) -> None:
        """Its document can be read again, and is the same."""
        sink = self.started()
        prepared = self.prepared(sink, 7, 0, 4)
        assert (prepared.checkpoint_id, prepared.records_written) == (7, 4)
        assert prepared.data_files
        assert prepared.bytes_written > 0
        assert PreparedCommit.from_json(prepared.to_json()) == prepared
        assert sink.pending() == [prepared]
        sink.finalize(prepared)
        assert sink.pending() == []

    def test_a_checkpoint_without_rows_changes_nothing(self) -> None:
        """It can be finalized like others."""
        sink = self.started()
        sink.finalize(self.prepared(sink, 1, 0))
        sink.write(self.rows(3, 0))
        prepared = sink.prepare(2)
        assert prepared.records_written == 0
        assert sink.finalize(prepared).checkpoint_id == 2
        sink.finalize(prepared)
        sink.finalize(self.prepared(sink, 3, 3))
        self.assert_holds((0, 3), (3, 3))

    def test_rows_that_do_not_fit_are_refused_whole(self) -> None:
        """The rows before and after are there."""
        sink = self.started()
        sink.write(self.rows(0, 2))
        with pytest.raises(GaplessError):
            sink.write(self.unfit())
        sink.write(self.rows(2, 1))
        prepared = sink.prepare(1)
        assert prepared.records_written == 3
        sink.finalize(prepared)
        self.assert_holds((0, 3))

    def test_nothing_is_taken_before_it_knows_the_columns(self) -> None:
        """`write` and `prepare` before `initialize` are refused."""
        sink = self.make_sink()
        with pytest.raises(GaplessError):
            sink.write(self.rows(0, 1))
        with pytest.raises(GaplessError):
            sink.prepare(1)

    def test_record_batches_are_taken_as_tables_are(self) -> None:
        """One at a time, as a source gives them."""
        sink = self.started()
        for batch in self.rows(0, 3).to_batches(max_chunksize=2):
            assert sink.write(batch) == batch.num_rows
        sink.finalize(sink.prepare(1))
        self.assert_holds((0, 3))

    def test_other_names(self) -> None:
        """`write_batch`, `prepare_commit` and `finalize_commit` do the same."""
        sink = self.started()
        assert sink.write_batch(self.rows(0, 3)) == 3
        prepared = sink.prepare_commit(1)
        assert sink.finalize_commit(prepared).checkpoint_id == 1
        self.assert_holds((0, 3))
