"""The contract of a source, as a test class: subclass it and get the whole suite.

```python
import pytest
from gapless.testing import SourceContract

class TestMySource(SourceContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):            # whatever the source needs; pytest makes a new instance for each test
        self.place = tmp_path

    def make_source(self):
        return MySource(self.place)

    def feed(self, first, count):
        put_rows(self.place, numbered(first, count))
```

Within one test every call of `make_source` must give a new source, as another process would make it, of one place, which has no rows when
the test starts. It begins with the first row. Where a source declares that it does not promise something (`Source.capabilities`), the
tests of that are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pytest

from gapless.connect.sources.protocol import Cursor, Polled, Source, SourceCapabilities
from gapless.errors import GaplessError
from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.testing.connect.rows import KINDS

LIMITS = (1, 2, 3, 7, None)
MOST = 100
"""More rows than any test feeds."""
WRONG_LIMITS = (0, -1, True, 1.5)


class SourceCase:
    """A test class over sources: its subclass says how one is made and fed."""

    column: str = "v"
    """The column that has the number of a row."""
    follows: bool = True
    """Whether rows that come later are given too; False for a source that ends with what there was when it was started."""
    in_order: bool = True
    """Whether rows come in the order in which they were fed."""

    def make_source(self) -> Source:
        """A new source of this test's place, not started."""
        raise NotImplementedError

    def feed(self, first: int, count: int) -> None:
        """Put `count` rows there, of number `first` and on."""
        raise NotImplementedError

    def take_back(self, number: int) -> None:  # noqa: ARG002  # a subclass needs it
        """Remove a row that was fed; a place where that can't be leaves this alone, and the test of it is skipped."""
        pytest.skip("rows of this source's place cannot be taken back")

    # -- what tests do ---------------------------------------------------------------------------------------------------

    def started(self, cursor: Cursor | None = None) -> Source:
        """A new source, started, at a cursor as it comes back from a checkpoint."""
        source = self.make_source()
        source.start(None if cursor is None else Cursor.from_json(cursor.to_json()))
        return source

    def numbers(self, polled: Polled, source: Source) -> list[int]:
        """The numbers of the rows of a poll, whose columns are held to what the source said."""
        found: list[int] = []
        for batch in polled:
            assert [(field.name, field.type) for field in batch.schema] == [(field.name, field.type) for field in source.schema]
            found += batch.column(self.column).to_pylist()
        assert len(found) == polled.rows
        return found

    def drained(self, source: Source, limit: int | None = None) -> list[int]:
        """The numbers of all rows that there are, in polls of at most `limit`."""
        found: list[int] = []
        while polled := self.numbers(source.poll(limit), source):
            assert limit is None or len(polled) <= limit, f"poll({limit}) gave {len(polled)} rows"
            found += polled
            assert len(found) <= MOST, f"more rows came than were fed: {found[-20:]} at the end"
        return found

    def assert_same(self, found: Iterable[int], wanted: Iterable[int]) -> None:
        """Each row once, and in their order where the source keeps it."""
        found, wanted = list(found), list(wanted)
        assert Counter(found) == Counter(wanted)
        assert not self.in_order or found == wanted

    def require_replay(self) -> None:
        """Skip the test where the source declares that it cannot start again at a cursor."""
        if not self.make_source().capabilities.replays:
            pytest.skip("the source declares replays=False")


class ReplayContract(SourceCase):
    """A source that declares `replays` gives from any of its cursors what it gave after it."""

    def test_a_cursor_goes_on_at_the_very_row(self) -> None:
        """After each row, in another source, in polls of another size."""
        self.require_replay()
        self.feed(0, 4)
        self.feed(4, 5)
        everything = self.drained(self.started())
        for taken in range(1, 9):
            first = self.started()
            begun = self.numbers(first.poll(taken), first)
            self.assert_same(begun + self.drained(self.started(first.cursor), 2), everything)

    def test_every_cursor_on_the_way_replays(self) -> None:
        """Those of small polls, whatever was read after them, as often as one likes."""
        self.require_replay()
        self.feed(0, 3)
        self.feed(3, 4)
        source, given = self.started(), list[list[int]]()
        cursors = [source.cursor]
        while polled := self.numbers(source.poll(2), source):
            given.append(polled)
            cursors.append(source.cursor)
        for at, cursor in enumerate(cursors):
            rest = [number for polled in given[at:] for number in polled]
            for _ in range(2):
                self.assert_same(self.drained(self.started(cursor)), rest)
        source.start(cursors[1])
        self.assert_same(self.drained(source), [number for polled in given[1:] for number in polled])

    def test_rows_that_come_later_change_nothing_before_them(self) -> None:
        """A cursor from before gives the rows of before first, and then those."""
        self.require_replay()
        self.feed(0, 5)
        first = self.started()
        begun = self.numbers(first.poll(2), first)
        cursor = first.cursor
        rest = self.drained(first)
        if self.follows:
            self.feed(5, 2)
            rest += [5, 6]
        self.assert_same(begun + self.drained(self.started(cursor), 1), begun + rest)

    def test_a_cursor_before_the_first_row(self) -> None:
        """Stored before there was any row, it gives all of them."""
        self.require_replay()
        if not self.follows:
            pytest.skip("the source ends with what there was")
        cursor = self.started().cursor
        empty = self.started()
        assert self.drained(empty) == []
        for begun in (cursor, empty.cursor):
            assert Cursor.from_json(begun.to_json()) == begun
        self.feed(0, 3)
        for begun in (cursor, empty.cursor):
            self.assert_same(self.drained(self.started(begun)), range(3))

    def test_a_committed_checkpoint_lets_go_of_nothing_after_it(self) -> None:
        """After `acknowledge` the source goes on, and starts again, at that checkpoint's cursor."""
        self.require_replay()
        self.feed(0, 6)
        source = self.started()
        begun = self.numbers(source.poll(2), source)
        cursor = source.cursor
        source.acknowledge(1)
        source.commit(2)
        rest = self.drained(source, 1)
        self.assert_same(begun + rest, range(6))
        self.assert_same(begun + self.drained(self.started(cursor)), range(6))


class SourceContract(ReplayContract):
    """The whole contract: replay, and what every source does."""

    def test_what_is_declared(self) -> None:
        """Before it is started; rows say what became of them where it declares that, and only there."""
        source = self.make_source()
        capabilities = source.capabilities
        assert isinstance(capabilities, SourceCapabilities)
        self.feed(0, 2)
        source.start()
        assert (CHANGE_TYPE in source.schema.names) == capabilities.retracts
        assert self.column in source.schema.names
        for batch in source.poll() if capabilities.retracts else ():
            assert set(batch.column(CHANGE_TYPE).to_pylist()) <= {*KINDS, "update_preimage"}

    def test_rows_that_are_taken_back_are_told_or_not_given(self) -> None:
        """A source that declares `retracts` tells of them; another one stops there, or leaves that commit out."""
        self.feed(0, 3)
        source = self.started()
        self.assert_same(self.drained(source), range(3))
        self.take_back(1)
        if source.capabilities.retracts:
            told = [row for batch in source.poll() for row in batch.to_pylist()]
            assert [(row[CHANGE_TYPE], row[self.column]) for row in told] == [("delete", 1)]
            return
        try:
            assert self.drained(source) == []
        except GaplessError:
            assert source.cursor.to_json()

    def test_each_row_comes_once(self) -> None:
        """In polls of any size, none of which gives more rows than it was asked for; then none."""
        self.feed(0, 4)
        self.feed(4, 1)
        self.feed(5, 6)
        for limit in LIMITS:
            source = self.started()
            self.assert_same(self.drained(source, limit), range(11))
            assert source.poll(limit).rows == 0
            source.close()

    def test_rows_that_come_later(self) -> None:
        """They come with the next poll, and nothing else."""
        if not self.follows:
            pytest.skip("the source ends with what there was")
        source = self.started()
        assert self.drained(source) == []
        for first in (0, 3, 6):
            self.feed(first, 3)
            self.assert_same(self.drained(source, 2), range(first, first + 3))

    def test_it_has_ended_where_it_says_that_it_ends(self) -> None:
        """`ended` once all rows were given of a source that declares `bounded`; never of another one, and not before."""
        self.feed(0, 3)
        source = self.started()
        assert not source.ended
        self.assert_same(self.drained(source, 2), range(3))
        assert source.poll().rows == 0
        assert source.ended == source.capabilities.bounded

    def test_the_columns_are_known_before_the_first_row(self) -> None:
        """And are the same for all."""
        self.feed(0, 3)
        source = self.started()
        told = source.schema
        assert isinstance(told, pa.Schema)
        self.assert_same(self.drained(source, 1), range(3))
        assert source.schema == told

    def test_a_limit_that_is_none_is_refused(self) -> None:
        """Zero, less, and what is no whole number; no row is lost by it."""
        self.feed(0, 3)
        source = self.started()
        for limit in WRONG_LIMITS:
            with pytest.raises(GaplessError):
                source.poll(limit)  # type: ignore[arg-type]  # what is refused
        self.assert_same(self.drained(source), range(3))

    def test_a_cursor_is_text(self) -> None:
        """JSON there and back is the same cursor, of this kind of source."""
        self.feed(0, 3)
        source = self.started()
        for _ in range(3):
            cursor = source.cursor
            assert Cursor.from_json(cursor.to_json()) == cursor
            source.poll(1)

    def test_the_cursor_of_another_kind_is_refused(self) -> None:
        """As is one of this kind that says nothing."""
        self.feed(0, 3)
        cursor = self.started().cursor
        for odd in (Cursor(source=f"not {cursor.source}", state=cursor.state), Cursor(source=cursor.source, state={})):
            with pytest.raises(GaplessError):
                self.started(odd)

    def test_it_can_be_closed(self) -> None:
        """At any time, and twice."""
        self.feed(0, 3)
        idle = self.make_source()
        idle.close()
        source = self.started()
        source.poll(1)
        source.close()
        source.close()

    def test_other_names(self) -> None:
        """`poll_next`, `current_checkpoint` and `commit` do the same."""
        self.feed(0, 4)
        source = self.started()
        begun = self.numbers(source.poll_next(1), source)
        assert len(begun) == 1
        assert source.current_checkpoint == source.cursor
        source.commit(1)
        self.assert_same(begun + self.drained(source), range(4))
