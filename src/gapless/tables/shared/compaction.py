"""Compaction, for every kind of table: write data files anew, some bins a commit, until the plan is empty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.errors import CorruptTable, InvalidOption, UnsupportedType
from gapless.files.sort.curve_sort import MAX_COLUMNS, has_rank
from gapless.files.write.staged_files import StagedFiles
from gapless.log.commit import VACUUMED, Conflict
from gapless.log.format import Entry, Snapshot, State
from gapless.model.valid_values import forbidden_values
from gapless.predicate.range import check_columns
from gapless.runtime.committer import Proposal, calling_on_error
from gapless.runtime.metrics import COMPACTED_FILES, COMPACTIONS
from gapless.tables.shared.findings import count
from gapless.tables.shared.handle import TableContext

TARGET_BYTES = 128 << 20
"""What a compacted segment aims at, in bytes of Parquet."""


def parse_target_size(given: object) -> int:
    """Bytes that a file shall have; raises InvalidOption."""
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise InvalidOption(
            f"target_size={given!r} is no number of bytes above zero",
            fix="Pass bytes of Parquet, such as target_size=128 << 20",
            option="target_size",
            value=given,
        )
    return given


def cluster_columns(given: object, schema: pa.Schema, option: str = "cluster_by", least: int = 0) -> tuple[str, ...]:
    """The columns along whose curve rows shall lie, as the argument `option` names them, at least so many.

    Raises InvalidOption, UnknownColumn, and UnsupportedType for a column whose values have no order.
    """
    names: tuple[object, ...] = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    many = least <= len(names) <= MAX_COLUMNS
    if not many or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidOption(
            f"{option}={given!r} is no list of one to {MAX_COLUMNS} different columns",
            why="Each further column halves what the z-order can tell apart of the others",
            fix="Pass the columns that filters name most",
            option=option,
            value=given,
        )
    columns = tuple(map(str, names))
    check_columns(columns, schema)
    for name in columns:
        if not has_rank(schema.field(name).type):
            raise UnsupportedType(
                f"column {name!r} of type {schema.field(name).type} cannot be clustered by",
                why="Its values have no order",
                fix="Name columns of numbers, texts, times or booleans",
                column=name,
                type=str(schema.field(name).type),
            )
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A bin that was not rewritten after all."""

    paths: tuple[str, ...]
    """Its segments, or those of them that are to blame."""
    why: str
    overtaken: bool = False
    """Whether other changes came first, and nothing is wrong."""


MAX_CONFLICTS = 5
"""How many commits in a row may be lost to others' before the bins of the last one are given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What one compaction did."""

    version: int
    """The table's version after it."""
    bins: int = 0
    """How many bins were committed."""
    segments_before: int = 0
    """Segments that were replaced,"""
    segments_after: int = 0
    """and those that took their place."""
    bytes_before: int = 0
    """Bytes of Parquet in the segments before,"""
    bytes_after: int = 0
    """and in those after."""
    rows: int = 0
    """Rows in them."""
    given_up: tuple[GivenUp, ...] = ()
    """Bins that were not rewritten after all, with why: their segments are what they were."""
    published: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As in `AppendReport`."""


# -- one compaction, from plan to commits ------------------------------------------------------------------------------


class DataFile(Protocol):
    """A live data file."""

    @property
    def path(self) -> str:
        """As the log has it."""
        ...

    @property
    def size(self) -> int | None:
        """Bytes, where they are known."""
        ...


File = TypeVar("File", bound=DataFile)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBin(Generic[File]):
    """Data files that are written anew together."""

    files: tuple[File, ...]
    """In the order in which they are read."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Their paths."""
        return tuple(file.path for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of Parquet."""
        return sum(file.size or 0 for file in self.files)


OneBin = TypeVar("OneBin", bound=FileBin[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBin(Generic[OneBin, File]):
    """A bin's rows as they were written again, not committed yet."""

    bin: OneBin
    attempt: StagedFiles
    files: tuple[File, ...]
    """In the order they were written; none of them changes data."""
    coverage: Sequence[CoverageMap] = ()
    """What each of them covers, for a kind of table that keeps that."""


@dataclass(slots=True, kw_only=True)
class CompactionProgress(Generic[File]):
    """How far one compaction has come."""

    before: Container[str] = ()
    """What was live when it began, by key: it takes up no other files but its own."""
    replaced: dict[str, File] = field(default_factory=dict)
    made: dict[str, File] = field(default_factory=dict)
    """The files that it wrote and did not replace again."""
    given_up: list[GivenUp] = field(default_factory=list)
    hopeless: set[str] = field(default_factory=set)
    """Paths that are not tried again."""
    rounds: int = 0
    """Plans that were carried out."""
    bins: int = 0
    conflicts: int = 0
    """Commits in a row that were lost."""

    def is_own(self, key: str) -> bool:
        """Whether a live file was there when it began, or is of its making."""
        return key in self.before or key in self.made

    def give_up(self, one: GivenUp) -> None:
        """Leave files as they are, for good."""
        self.given_up.append(one)
        self.hopeless |= set(one.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction(ABC, Generic[Entry, State, OneBin, File]):
    """Compacts one table; what is abstract is each kind's own: what it plans, how it writes a bin, and what it tells the log."""

    context: TableContext[Entry, State]
    progress: CompactionProgress[File] = field(default_factory=CompactionProgress)

    noun: ClassVar[str]
    """What the kind calls a data file."""

    @property
    @abstractmethod
    def commit_bytes(self) -> int:
        """A commit holds bins of together so many bytes, or the first that goes beyond: a conflict loses no more than that."""

    @abstractmethod
    def next_bins(self, state: State) -> Sequence[OneBin]:
        """What is left to be written anew, of files that are the compaction's own and not hopeless."""

    @abstractmethod
    def write(self, state: State, bins: Sequence[OneBin]) -> Iterator[WrittenBin[OneBin, File] | GivenUp]:
        """Each of some bins in its order; what is given up left nothing behind."""

    @abstractmethod
    def propose(self, snapshot: Snapshot[State], written: Sequence[WrittenBin[OneBin, File]]) -> Proposal[Entry]:
        """The commit of bins to a version."""

    @abstractmethod
    def live(self, state: State) -> Container[str]:
        """The keys of the live files."""

    @abstractmethod
    def key_of(self, file: File) -> str:
        """What the state knows a file by."""

    @abstractmethod
    def rows_of(self, file: File) -> int:
        """The rows of a file that was written."""

    def room(self) -> int:
        """How many bins are written at once: a commit holds whole rounds of them."""
        return 1

    def outlives(self, lost: Conflict) -> bool:  # noqa: ARG002  # asked by those that override it
        """Whether bins that are whole may be committed after that conflict as they are; if not, they are planned anew."""
        return True

    def landed(self, written: Sequence[WrittenBin[OneBin, File]]) -> None:
        """Told of bins that were committed."""

    def run(self, snapshot: Snapshot[State]) -> CompactionReport:
        """Compact until the plan is empty, so that a second run finds nothing to do; `progress` began with this version.

        Files that other changes remove meanwhile stay removed, and their bin is given up; what others add is left to the next run. Raises
        CommitOutcomeUnknown, StoreError; what was committed until then stands.
        """
        progress = self.progress
        while bins := self.next_bins(snapshot.state):
            progress.rounds += 1
            for batch in _batches(bins, self.commit_bytes, self.room()):
                snapshot = self._apply(snapshot, batch)
        if progress.bins:
            COMPACTIONS.add(1, self.context.committer.table_format.kind, self.context.store.url)
        before, after = progress.replaced.values(), progress.made.values()
        return CompactionReport(
            version=snapshot.version,
            bins=progress.bins,
            segments_before=len(before),
            segments_after=len(after),
            bytes_before=sum(file.size or 0 for file in before),
            bytes_after=sum(file.size or 0 for file in after),
            rows=sum(map(self.rows_of, after)),
            given_up=tuple(progress.given_up),
        )

    def _apply(self, snapshot: Snapshot[State], batch: Sequence[OneBin]) -> Snapshot[State]:
        """Write and commit what is left of a batch; the version after it."""
        # Whatever was removed since the plan was made must not come back: this version is the one that the commit is judged from.
        written = self._write(snapshot.state, [one for one in batch if self._is_whole(one, snapshot.state)])
        seen, lost = [snapshot], list[Conflict]()

        def propose(newest: Snapshot[State]) -> Proposal[Entry] | None:
            seen.append(newest)
            if lost:
                self._keep_left(written, lost[-1], newest.state)
            return self.propose(newest, written) if written else None

        discard = partial(_discard, written)
        landed = self.context.committer.land(snapshot, propose, discard=discard, lost=lost.append, retry_missing=False)
        if landed is None:
            return seen[-1]
        self._note_landed(written)
        return landed

    def _write(self, state: State, bins: Sequence[OneBin]) -> list[WrittenBin[OneBin, File]]:
        """The bins as they were written; the others of them are given up."""
        written: list[WrittenBin[OneBin, File]] = []
        with calling_on_error(partial(_discard, written)):
            for outcome in self.write(state, bins) if bins else ():
                if isinstance(outcome, GivenUp):
                    self.progress.give_up(outcome)
                else:
                    written.append(outcome)
        return written

    def _note_landed(self, written: Sequence[WrittenBin[OneBin, File]]) -> None:
        progress = self.progress
        progress.conflicts = 0
        progress.bins += len(written)
        replaced = sum(len(one.bin.files) for one in written)
        COMPACTED_FILES.add(replaced, self.context.committer.table_format.kind, self.context.store.url)
        for one in written:
            for file in one.bin.files:
                if progress.made.pop(self.key_of(file), None) is None:
                    progress.replaced[self.key_of(file)] = file
            progress.made |= {self.key_of(file): file for file in one.files}
        self.landed(written)

    def _keep_left(self, written: list[WrittenBin[OneBin, File]], lost: Conflict, state: State) -> None:
        """Keep what may be committed after all of a commit that lost; the other bins are discarded."""
        self.progress.conflicts += 1
        left: list[WrittenBin[OneBin, File]] = []
        if self.progress.conflicts >= MAX_CONFLICTS:
            why = f"other commits kept coming first; version {lost.version} clashed ({lost.cause.reason})"
            for one in written:
                self.progress.give_up(GivenUp(paths=one.bin.paths, why=why, overtaken=True))
        else:
            whole = [one for one in written if self._is_whole(one.bin, state)]
            left = whole if self.outlives(lost) and lost.cause.reason != VACUUMED else []
        _discard([one for one in written if one not in left])
        written[:] = left

    def _is_whole(self, one: OneBin, state: State) -> bool:
        """Whether all files of a bin are live; a bin that was overtaken is noted, and those of its files that are left are planned anew."""
        live = self.live(state)
        gone = sum(self.key_of(file) not in live for file in one.files)
        if gone:
            why = f"another change removed {gone} of its {count(len(one.files), self.noun)} first"
            self.progress.given_up.append(GivenUp(paths=one.paths, why=why, overtaken=True))
        return not gone


def _batches(bins: Iterable[OneBin], size: int, room: int) -> Iterator[list[OneBin]]:
    """Bins that are committed together: of `size` bytes, or the first that goes beyond, but whole rounds of `room` bins."""
    held: list[OneBin] = []
    filled = 0
    for one in bins:
        held.append(one)
        filled += one.size
        if len(held) % room == 0 and filled >= size:
            yield held
            held, filled = [], 0
    if held:
        yield held


def _discard(written: Iterable[WrittenBin[Any, Any]]) -> None:
    for one in written:
        one.attempt.discard()


def check_stored_values(rows: pa.RecordBatch | pa.Table, first_row: int, path: str) -> None:
    """Raise CorruptTable where rows of the file at `path` hold a value which its column's type forbids: written anew it would seem sound.

    `first_row` is the number of the first row among those that are read of the file.
    """
    for column, found in forbidden_values(rows):
        raise CorruptTable(
            f"column {column!r} holds {found.value!r} in row {first_row + found.row} (from 0): {found.why}",
            why="What wrote the file did not check its values",
            fix="Read the rows, and overwrite them by values that fit",
            path=path,
        )
