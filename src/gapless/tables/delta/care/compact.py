"""Laying files of a Delta table out anew, some bins a commit.

Laying a Delta table's rows out anew: the same rows, in fewer files or in another order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from gapless.errors import InvalidOption, nearest
from gapless.files.sort.curve_sort import CURVES
from gapless.formats.delta.actions import AddFile, Commit, TableState
from gapless.formats.delta.conflict import CommitPredicate
from gapless.formats.delta.features import check_writable
from gapless.formats.delta.properties import Settings
from gapless.log.commit import Conflict
from gapless.log.format import Snapshot
from gapless.model.instant import NS_PER
from gapless.predicate.prune_files import expression_text
from gapless.runtime.committer import Committer, Proposal
from gapless.runtime.environment import Environment
from gapless.tables.delta.care.compact_bin import BinWriter, WrittenBin
from gapless.tables.delta.care.compact_plan import Curved, DeltaBin, plan_curve, plan_packing
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.read.scan import Condition, select_files
from gapless.tables.delta.write.commits import new_commit
from gapless.tables.delta.write.rewrite import RowCondition
from gapless.tables.shared.compaction import (
    MAX_CONFLICTS,
    TARGET_BYTES,
    CompactionReport,
    GivenUp,
    cluster_columns,
    parse_target_size,
)
from gapless.tables.shared.findings import count

_COMMIT_FILES = 8
"""A commit holds bins of together so many times the target size, so that a conflict loses no more than that."""
_STILL_FIT = "same files"
"""The clash after which bins may be committed that it did not touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCompactOptions:
    """How files are laid out anew, and which."""

    target_size: int
    """Bytes of Parquet that a file shall have."""
    condition: Condition
    """Files that may hold a row which it keeps."""
    where: str
    """The same in words, for the log."""
    order: Curved | None = None
    """Rows shall lie along a curve; None packs small files."""


@dataclass(slots=True, kw_only=True)
class _CompactionProgress:
    """How far one compaction has come."""

    before: Mapping[str, AddFile]
    """What was live when it began, by key: it takes up no other files but its own."""
    replaced: dict[str, AddFile] = field(default_factory=dict)
    made: dict[str, AddFile] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    given_up: list[GivenUp] = field(default_factory=list)
    hopeless: set[str] = field(default_factory=set)
    """Paths that are not tried again."""
    bins: int = 0
    conflicts: int = 0

    def landed(self, written: Iterable[WrittenBin]) -> None:
        """Take in the bins of a commit."""
        self.conflicts = 0
        for one in written:
            self.bins += 1
            for file in one.bin.files:
                if self.made.pop(file.key, None) is None:
                    self.replaced[file.key] = file
                else:
                    self.rows.pop(file.key, None)
            self.made |= {file.key: file for file in one.files}
            self.rows |= dict.fromkeys((file.key for file in one.files), 0)
            self.rows |= {file.key: one.rows for file in one.files[:1]}

    def give_up(self, one: GivenUp) -> None:
        """Let files be for good."""
        self.given_up.append(one)
        self.hopeless |= set(one.paths)

    def gave_way(self, one: DeltaBin, live: Mapping[str, AddFile]) -> None:
        """Note that a bin was overtaken; those of its files that are left are planned anew."""
        gone = sum(key not in live for key in one.keys)
        why = f"another change removed {gone} of its {count(len(one.files), 'file')} first"
        self.given_up.append(GivenUp(paths=tuple(file.path for file in one.files), why=why, overtaken=True))

    def report(self, version: int) -> CompactionReport:
        """What came of it."""
        before, after = self.replaced.values(), self.made.values()
        return CompactionReport(
            version=version,
            bins=self.bins,
            segments_before=len(before),
            segments_after=len(after),
            bytes_before=sum(file.size for file in before),
            bytes_after=sum(file.size for file in after),
            rows=sum(self.rows.values()),
            given_up=tuple(self.given_up),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCompactor:
    """Compacts one Delta table."""

    env: Environment
    committer: Committer[Commit, TableState]
    options: DeltaCompactOptions

    def compact(self, snapshot: Snapshot[TableState]) -> CompactionReport:
        """Compact until the plan is empty, so that a second run finds nothing to do; a curve is laid out once.

        Files that other changes remove meanwhile are let be, with their bin; what others add is left to the next run. Raises
        CommitOutcomeUnknown, StoreError; what was committed until then stands.
        """
        course = _CompactionProgress(before=snapshot.state.files)
        while bins := self._plan(snapshot.state, course):
            for batch in _batches(bins, _COMMIT_FILES * self.options.target_size):
                snapshot = self._apply(snapshot, batch, course)
        return course.report(snapshot.version)

    def _plan(self, state: TableState, course: _CompactionProgress) -> tuple[DeltaBin, ...]:
        found = (candidate.file for candidate in select_files(state, self.options.condition))
        ours = [file for file in found if file.path not in course.hopeless]
        if self.options.order is not None:
            return plan_curve([file for file in ours if file.key in course.before], self.options.order)
        return plan_packing(
            [file for file in ours if file.key in course.before or file.key in course.made], self.options.target_size
        )

    def _apply(
        self, snapshot: Snapshot[TableState], batch: Sequence[DeltaBin], course: _CompactionProgress
    ) -> Snapshot[TableState]:
        """Write and commit what is left of a batch; the version after it."""
        # Whatever was removed since the plan was made must not come back: this version is the one that the commit is judged from.
        left = self._whole(batch, snapshot.state, course)
        written = self._write(snapshot.state, left, course)
        while written:
            outcome = self.committer.commit(snapshot, self._proposal(snapshot, written))
            if not isinstance(outcome, Conflict):
                course.landed(written)
                return outcome
            try:
                snapshot = self.committer.refresh(snapshot)
                check_writable(snapshot.state.protocol, self.env.store.url, snapshot.state.metadata)
            except BaseException:
                # The conflict is certain, so nothing can need these files.
                _discard(written)
                raise
            written = self._left(written, outcome, snapshot.state, course)
        return snapshot

    def _whole(self, bins: Iterable[DeltaBin], state: TableState, course: _CompactionProgress) -> list[DeltaBin]:
        """The bins whose files are all live; the others are noted."""
        whole = []
        for one in bins:
            if all(key in state.files for key in one.keys):
                whole.append(one)
            else:
                course.gave_way(one, state.files)
        return whole

    def _left(
        self, written: Sequence[WrittenBin], lost: Conflict, state: TableState, course: _CompactionProgress
    ) -> list[WrittenBin]:
        """What may be committed after all of a commit that lost: where it lost files, the bins without these; the others are discarded."""
        course.conflicts += 1
        whole = self._whole((one.bin for one in written), state, course)
        if course.conflicts >= MAX_CONFLICTS:
            for one in whole:
                why = f"other commits kept coming first; version {lost.version} clashed ({lost.clash.reason})"
                course.give_up(GivenUp(paths=tuple(file.path for file in one.files), why=why, overtaken=True))
        keeps = lost.clash.reason == _STILL_FIT and course.conflicts < MAX_CONFLICTS
        left = [one for one in written if keeps and one.bin in whole]
        _discard(one for one in written if one not in left)
        return left

    def _write(self, state: TableState, bins: Sequence[DeltaBin], course: _CompactionProgress) -> list[WrittenBin]:
        """The bins as they were written; the others of them are given up."""
        writer = BinWriter(
            reader=FileReader.of(self.env.store, state.metadata),
            state=state,
            target_size=self.options.target_size,
            order=self.options.order,
        )
        written: list[WrittenBin] = []
        try:
            for one in bins:
                outcome = writer.write(one, StagedWrite.begin(self.env, committed_here=False))
                if isinstance(outcome, GivenUp):
                    course.give_up(outcome)
                else:
                    written.append(outcome)
        except BaseException:
            # No commit was tried yet, so nothing can need these files.
            _discard(written)
            raise
        return written

    def _proposal(self, snapshot: Snapshot[TableState], written: Sequence[WrittenBin]) -> Proposal[Commit]:
        now_ms = self.env.clock.now_ns() // NS_PER["ms"]
        actions = [action for one in written for action in one.actions(now_ms)]
        order = self.options.order
        parameters = {
            "predicate": json.dumps([self.options.where] if self.options.where else []),
            "zOrderBy": json.dumps([] if order is None else order.columns),
            "auto": False,
            **({} if order is None else {"curve": order.curve}),
        }
        commit = new_commit(self.env, snapshot, "OPTIMIZE", actions, parameters=parameters)
        return Proposal(
            commit=replace(commit, metrics=_metrics(commit)),
            check_conflict=CommitPredicate(state=snapshot.state).check_conflict,
            discard=lambda: _discard(written),
        )


def _metrics(commit: Commit) -> dict[str, int]:
    """By Delta's names."""
    return {
        "numRemovedFiles": len(commit.removed),
        "numRemovedBytes": sum(file.size or 0 for file in commit.removed),
        "numAddedFiles": len(commit.added),
        "numAddedBytes": sum(file.size for file in commit.added),
        "numDeletionVectorsRemoved": sum(file.deletion_vector is not None for file in commit.removed),
    }


def _batches(bins: Iterable[DeltaBin], size: int) -> Iterator[list[DeltaBin]]:
    """Bins that are committed together: of `size` bytes, or the first that goes beyond."""
    held, filled = list[DeltaBin](), 0
    for one in bins:
        held.append(one)
        filled += one.size
        if filled >= size:
            yield held
            held, filled = [], 0
    if held:
        yield held


def _discard(written: Iterable[WrittenBin]) -> None:
    for one in written:
        one.attempt.discard()


class Compacting(DeltaHandle):
    """Compaction of a Delta table."""

    def compact(self, *, target_size: int | None = None, where: str | pc.Expression | None = None) -> CompactionReport:
        """Write small files of a partition together as larger ones, in their order, and files with deleted rows without these.

        Args:
            target_size: Bytes of Parquet that a file shall have; those of at least half of it stay as they are. Where not given, the table's
                `delta.targetFileSize`, else 128 MiB.
            where: Only files that may hold a row for which it is true, by partition values and statistics: SQL or a pyarrow expression, as
                in `scan`.

        The same rows, and no change for readers of the change feed. Runs beside appends, row changes and readers: a commit holds up to eight
        times the target size. Files that other changes removed meanwhile are let be with their bin, and the report says so; what was
        appended meanwhile waits for the next run. Replaced files stay for older versions until vacuum. A second run finds nothing to do
        and makes no commit. Raises InvalidOption, InvalidFilter, InvalidQuery, UnknownColumn, UnsupportedTable, CommitOutcomeUnknown,
        StoreError.
        """
        return self._lay_out(None, target_size, where)

    def zorder(
        self,
        columns: str | Sequence[str],
        *,
        curve: str = "z",
        target_size: int | None = None,
        where: str | pc.Expression | None = None,
    ) -> CompactionReport:
        """Write the rows of each partition anew along a curve through one to four columns, so that filters on any of them read few files.

        Args:
            columns: Columns of numbers, texts, times or booleans that are no partition columns.
            curve: "z" for the z-order, "hilbert" for the Hilbert curve, which costs more to make and lets filters open fewer files.
            target_size: Bytes of Parquet that a file shall have, as in `compact`.
            where: Only files that may hold a row for which it is true; they are ordered among each other.

        A partition whose files all lie so already stays as it is. What does not fit into about 256 MiB of memory goes through temporary
        files. The rest is as in `compact`; raises also UnsupportedType for a column whose values have no order.
        """
        if curve not in CURVES:
            raise InvalidOption(f"curve={curve!r} is not known", fix=nearest(str(curve), CURVES), option="curve", value=curve)
        self._committer.refresh(self._snapshot)
        names = cluster_columns(columns, self.schema, "columns", least=1)
        fixed = [name for name in names if name in self.partition_by]
        if fixed:
            raise InvalidOption(
                f"rows cannot be ordered by the partition column {fixed[0]!r}",
                why="All rows of a file have the same value of it",
                fix="Leave it out",
                option="columns",
                value=columns,
            )
        return self._lay_out(Curved(columns=names, curve="z" if curve == "z" else "hilbert"), target_size, where)

    def _lay_out(self, order: Curved | None, target_size: int | None, where: str | pc.Expression | None) -> CompactionReport:
        committer = self._committer
        newest = committer.refresh(self._snapshot)
        self._check_writable()
        asked = target_size or Settings.of(newest.state.configuration).target_file_size or TARGET_BYTES
        options = DeltaCompactOptions(
            target_size=parse_target_size(asked if target_size is None else target_size),
            condition=RowCondition.parse(where, self.schema).near,
            where="" if where is None else expression_text(where),
            order=order,
        )
        return DeltaCompactor(env=self._env, committer=committer, options=options).compact(newest)
