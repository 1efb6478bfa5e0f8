"""A log's commits and checkpoints folded into a state, stepping over what cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.timeseries.actions import Commit, TableState
from gapless.formats.timeseries.checkpoint.checkpoint import refs_of
from gapless.formats.timeseries.checkpoint.part import PartRef
from gapless.formats.timeseries.codec.metadata import CLEANUP_FEATURE
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.checkpoint import lost_parts
from gapless.log.effects import Drive
from gapless.log.format import PartName, Snapshot
from gapless.model.instant import NS_PER_DAY
from gapless.model.operation import JobId
from gapless.tables.shared.findings import Finding

Entry = tuple[int, Commit, int]
"""A version, its commit and its commit time (nanoseconds since 1970 UTC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredVersions:
    """A checkpoint that tells what broken versions of `(start, end]` did, since the state before and after them is known."""

    start: int
    end: int
    before: TableState | None
    entries: tuple[Entry, ...]
    """The commits of the range that can be read."""
    after: TableState
    time_ns: int
    """The checkpoint's commit time."""


@dataclass(slots=True)
class Fold:
    """Commits folded into a state from checkpoint to checkpoint, stepping over what cannot be."""

    entries: list[Entry]
    drive: Drive
    """Reads the parts of checkpoints."""
    at: int = 0
    state: TableState | None = None
    exact: bool = True
    """Whether `state` is certainly that of version `at`."""
    place: int = 0
    """How many of `entries` are folded in."""
    good: list[int] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    bridges: list[RecoveredVersions] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    sound: set[PartName] = field(default_factory=set)
    """Parts that were read, and are as they were written."""
    lost: dict[str, PartRef] = field(default_factory=dict)
    """Parts that are not, by path."""
    lacking: dict[int, frozenset[str]] = field(default_factory=dict)
    """By the version of a checkpoint, which of its parts are lost."""

    def meet_checkpoint(self, version: int, data: bytes) -> None:
        """Fold up to a checkpoint and hold it against what the commits say; where those are lost, it stands for them.

        One that is older than where the fold began is only looked at.
        """
        path = TIME_SERIES.checkpoint_path(version)
        try:
            found = TIME_SERIES.decode_checkpoint(data, version, self.drive)
        except UnsupportedTable as error:
            self.findings.append(Finding(code="commit-unsupported", path=path, what=f"{path}: {error.what}"))
            return
        except CorruptTable as error:
            self._reject(version, Finding(code="checkpoint-damaged", path=path, what=error.what, mend="repair"))
            return
        if lost := self._lost_parts(found):
            self.lacking[version] = lost
            what = f"the log checkpoint of version {version} needs the part {min(lost)}, which is missing or damaged"
            self._reject(version, Finding(code="checkpoint-damaged", path=path, what=what, mend="repair"))
            return
        if version <= self.at and self.state is not None:
            self.good.append(version)
            return
        start, before, place = self.at, self.state, self.place
        self._advance(version)
        if not self.exact:
            between = tuple(self.entries[place : self.place])
            bridge = RecoveredVersions(
                start=start, end=version, before=before, entries=between, after=found.state, time_ns=found.time_ns
            )
            self.bridges.append(bridge)
            self.state, self.exact = found.state, True
        elif self.state is None or not same_state(self.state, found):
            what = f"the log checkpoint of version {version} is not what the commits up to there make"
            self._reject(version, Finding(code="checkpoint-differs", path=path, what=what, mend="repair"))
            return
        self.good.append(version)

    def meet_all(self, checkpoints: Iterable[tuple[int, bytes]]) -> None:
        """Fold the whole log."""
        for version, data in checkpoints:
            self.meet_checkpoint(version, data)
        if self.place < len(self.entries):
            self._advance(self.entries[-1][0])

    def _lost_parts(self, found: Snapshot[TableState]) -> frozenset[str]:
        """The parts of a checkpoint that are missing or damaged; each is read once."""
        names = TIME_SERIES.parts_of(found)
        unknown = [name for name in names if name not in self.sound and name.path not in self.lost]
        lost: frozenset[str] = self.drive(lost_parts(unknown))
        self.sound.update(name for name in unknown if name.path not in lost)
        self.lost |= {ref.path: ref for ref in refs_of(found.state) if ref.path in lost}
        return frozenset(name.path for name in names if name.path in self.lost)

    def _reject(self, version: int, finding: Finding) -> None:
        self.bad.append(version)
        self.findings.append(finding)

    def _advance(self, version: int) -> None:
        end = self.place
        while end < len(self.entries) and self.entries[end][0] <= version:
            end += 1
        batch = self.entries[self.place : end]
        folded = self._apply(batch)
        self.exact = self.exact and folded and len(batch) == version - self.at
        self.at, self.place = version, end

    def _apply(self, batch: Sequence[Entry]) -> bool:
        """Fold a batch; False, with what can be folded, where an entry contradicts those before it."""
        if not batch:
            return self.state is not None
        before = self.state
        try:
            self.state = TIME_SERIES.replay(before, batch)
        except CorruptTable as error:
            if len(batch) == 1:
                lost_start = before is None and batch[0][1].meta is None
                if not lost_start or batch[0][0] == 1:
                    self.findings.append(Finding(code="commit-contradicts", path=error.path, what=error.what))
                return False
            half = len(batch) // 2
            first, second = self._apply(batch[:half]), self._apply(batch[half:])
            return first and second
        return True


def fold_log(
    entries: list[Entry], present: Sequence[int], checkpoints: Iterable[tuple[int, bytes]], drive: Drive
) -> tuple[Fold, Snapshot[TableState] | None]:
    """The log folded from its start: from version 1, or from the checkpoint at which a cleaned log starts."""
    fold = Fold(entries, drive)
    fold.meet_all(checkpoints)
    start = _start_of(fold, frozenset(present))
    if start == 0:
        return fold, None
    data = next((data for version, data in checkpoints if version == start), None)
    if data is None:
        # It went since: the log is being cleaned, and whoever reads it must look again.
        return fold, None
    base = TIME_SERIES.decode_checkpoint(data, start, drive)
    again = Fold([entry for entry in entries if entry[0] > start], drive, at=start, state=base.state)
    again.sound |= fold.sound
    again.meet_all(checkpoints)
    return again, base


def _start_of(fold: Fold, present: frozenset[int]) -> int:
    """The checkpoint at which the log starts, if it was cleaned; 0 where it starts at version 1, or should.

    Only expired versions may be gone. Where several checkpoints would do, it is the oldest that has all commits after it which are
    not expired, or else the newest.
    """
    state = fold.state
    if state is None or CLEANUP_FEATURE not in state.meta.reader_features:
        return 0
    fit = [version for version in fold.good if version <= state.earliest]
    if not fit or present.issuperset(range(1, fit[-1] + 1)):
        return 0
    whole = (version for version in fit if present.issuperset(range(version + 1, state.earliest)))
    return next(whole, fit[-1])


def same_state(replayed: TableState, found: Snapshot[TableState]) -> bool:
    """Whether a checkpoint holds a state; it may lack jobs whose retention had passed, and know more removed segments:
    of lost commits, of which the log tells less.
    """
    known, kept = replayed.applied, found.state.applied
    horizon_ns = found.time_ns - replayed.meta.properties.operation_retention_days * NS_PER_DAY
    dropped = (known[key] for key in known.keys() - kept.keys())
    return (
        replayed.meta == found.state.meta
        and list(replayed.live.items()) == list(found.state.live.items())
        and replayed.removed.items() <= found.state.removed.items()
        and replayed.tags == found.state.tags
        and replayed.earliest == found.state.earliest
        and replayed.inlined_bytes == found.state.inlined_bytes
        and all(known.get(key) == value for key, value in kept.items())
        and all(isinstance(one.operation, JobId) and one.time_ns < horizon_ns for one in dropped)
    )
