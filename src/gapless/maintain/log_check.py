"""What a log's bytes say, read as far as they can be: which versions are lost, which contradict, and the state that is left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gapless.dialects.timeseries.actions import AddSegment, Commit, RemoveSegment, TableState
from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.errors import CorruptTable, UnsupportedTable
from gapless.log.dialect import Snapshot
from gapless.maintain.finding import Finding, numbers_of
from gapless.maintain.hint_check import check_hints, hinted_version
from gapless.model.instant import NS_PER_DAY, format_instant
from gapless.model.operation import JobId
from gapless.model.segment import SidecarCoverage

Entry = tuple[int, Commit, int]
"""A version, its commit and its commit time (nanoseconds since 1970 UTC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What lies in a log's folder; iterables are read once, in order of version."""

    commits: Iterable[tuple[int, bytes]]
    checkpoints: Iterable[tuple[int, bytes]]
    hint: bytes | None
    """CURRENT."""
    checkpoint_hint: bytes | None
    """_last_checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """A checkpoint that tells what broken versions of `(start, end]` did, since the state before and after them is known."""

    start: int
    end: int
    before: TableState | None
    entries: tuple[Entry, ...]
    """The commits of the range that can be read."""
    after: TableState
    time_ns: int
    """The checkpoint's commit time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """A log, as far as it can be read."""

    newest: int
    """The highest version of which there is a commit or a checkpoint; 0 where there is none."""
    hinted: int
    """The version CURRENT names; 0 where it names none."""
    entries: tuple[Entry, ...]
    missing: tuple[range, ...]
    """Runs of versions that have no commit file."""
    damaged: tuple[int, ...]
    """Versions whose commit file cannot be read."""
    checkpoints: tuple[int, ...]
    """Versions whose checkpoint agrees with the log."""
    bad_checkpoints: tuple[int, ...]
    """Versions whose checkpoint must not be believed."""
    bridges: tuple[Bridge, ...]
    state: TableState | None
    """The newest state, or what is left of it."""
    whole: bool
    """Whether `state` is certain: nothing that it needs is lost."""
    findings: tuple[Finding, ...]

    @property
    def named(self) -> frozenset[str]:
        """Every path that any version names."""
        live = [entry.segment for entry in self.state.live.values()] if self.state else []
        added = [segment for _, commit, _ in self.entries for segment in commit.added]
        removed = (a.path for _, commit, _ in self.entries for a in commit.actions if isinstance(a, RemoveSegment))
        sidecars = (s.coverage.path for s in (*live, *added) if isinstance(s.coverage, SidecarCoverage))
        return frozenset([*(s.path for s in (*live, *added)), *sidecars, *removed])


def examine_log(facts: LogFacts) -> LogView:
    """Read everything that can be read; what cannot becomes a finding."""
    entries, unread = _decoded(facts.commits)
    fold = _Fold(entries)
    for version, data in facts.checkpoints:
        fold.meet_checkpoint(version, data)
    fold.finish()
    present = [version for version, _, _ in entries] + [finding.version for finding in unread]
    newest = max([*present, *fold.good], default=0)
    hinted = hinted_version(facts.hint)
    missing = _gaps(present, max(newest, hinted))
    view = LogView(
        newest=newest,
        hinted=hinted,
        entries=tuple(entries),
        missing=missing,
        damaged=tuple(one.version for one in unread if one.finding.code == "commit-damaged"),
        checkpoints=tuple(fold.good),
        bad_checkpoints=tuple(fold.bad),
        bridges=tuple(fold.bridges),
        state=fold.state,
        whole=fold.exact and fold.at == max(newest, hinted),
        findings=(),
    )
    bridged = frozenset(v for bridge in view.bridges for v in range(bridge.start + 1, bridge.end + 1))
    found = [_missing(run, view, bridged) for run in missing] + [_explained(one, bridged) for one in unread]
    found += [*fold.findings, *_time_findings(entries), *_schema_finding(view)]
    found += check_hints(facts.hint, facts.checkpoint_hint, newest, view.checkpoints)
    return replace(view, findings=tuple(found))


@dataclass(frozen=True, slots=True)
class _Unread:
    version: int
    finding: Finding


def _decoded(commits: Iterable[tuple[int, bytes]]) -> tuple[list[Entry], list[_Unread]]:
    entries: list[Entry] = []
    unread: list[_Unread] = []
    for version, data in commits:
        path = TIME_SERIES.path_of(version)
        try:
            entries.append((version, *TIME_SERIES.decode(data, version)))
        except UnsupportedTable as error:
            unread.append(_Unread(version, Finding(code="commit-unsupported", path=path, what=f"{path}: {error.what}")))
        except CorruptTable as error:
            finding = Finding(code="commit-damaged", path=path, what=f"version {version}: {error.what}", mend="accept-loss")
            unread.append(_Unread(version, finding))
    return entries, unread


@dataclass(slots=True)
class _Fold:
    """Commits folded into a state from checkpoint to checkpoint, stepping over what cannot be."""

    entries: list[Entry]
    at: int = 0
    state: TableState | None = None
    exact: bool = True
    """Whether `state` is certainly that of version `at`."""
    place: int = 0
    """How many of `entries` are folded in."""
    good: list[int] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    bridges: list[Bridge] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def meet_checkpoint(self, version: int, data: bytes) -> None:
        """Fold up to a checkpoint and hold it against what the commits say; where those are lost, it stands for them."""
        path = TIME_SERIES.checkpoint_path(version)
        try:
            found = TIME_SERIES.decode_checkpoint(data, version)
        except UnsupportedTable as error:
            self.findings.append(Finding(code="commit-unsupported", path=path, what=f"{path}: {error.what}"))
            return
        except CorruptTable as error:
            self._reject(version, Finding(code="checkpoint-damaged", path=path, what=error.what, mend="repair"))
            return
        start, before, place = self.at, self.state, self.place
        self._advance(version)
        if not self.exact:
            between = tuple(self.entries[place : self.place])
            bridge = Bridge(start=start, end=version, before=before, entries=between, after=found.state, time_ns=found.time_ns)
            self.bridges.append(bridge)
            self.state, self.exact = found.state, True
        elif self.state is None or not same_state(self.state, found):
            what = f"the log checkpoint of version {version} is not what the commits up to there make"
            self._reject(version, Finding(code="checkpoint-differs", path=path, what=what, mend="repair"))
            return
        self.good.append(version)

    def finish(self) -> None:
        """Fold what comes after the last checkpoint."""
        if self.place < len(self.entries):
            self._advance(self.entries[-1][0])

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


def same_state(replayed: TableState, found: Snapshot[TableState]) -> bool:
    """Whether a checkpoint holds a state; it may have let go of jobs whose retention had passed."""
    known, kept = replayed.applied, found.state.applied
    horizon_ns = found.time_ns - replayed.meta.properties.operation_retention_days * NS_PER_DAY
    dropped = (known[key] for key in known.keys() - kept.keys())
    return (
        replayed.meta == found.state.meta
        and replayed.live == found.state.live
        and all(known.get(key) == value for key, value in kept.items())
        and all(isinstance(one.operation, JobId) and one.time_ns < horizon_ns for one in dropped)
    )


def _gaps(present: Iterable[int], end: int) -> tuple[range, ...]:
    """The runs of versions from 1 to `end` that are not present."""
    edges = pairwise([0, *sorted(present), end + 1])
    return tuple(range(low + 1, high) for low, high in edges if high - low > 1)


def _missing(run: range, view: LogView, bridged: frozenset[int]) -> Finding:
    which, path = numbers_of(run), TIME_SERIES.path_of(run[0])
    if run[0] > view.newest:
        what = f"{which} {_is_lost(run)}, or CURRENT is: it names version {view.hinted}, and the newest commit found is {view.newest}"
        return Finding(code="hint-ahead", path=path, what=what, mend="accept-loss")
    what = f"{which} {_is_lost(run)}: there is no commit, although there are later ones{_kept(run, bridged)}"
    return Finding(code="commit-missing", path=path, what=what, mend="accept-loss")


def _explained(one: _Unread, bridged: frozenset[int]) -> Finding:
    kept = _kept(range(one.version, one.version + 1), bridged) if one.finding.code == "commit-damaged" else ""
    return replace(one.finding, what=one.finding.what + kept)


def _kept(run: range, bridged: frozenset[int]) -> str:
    return "; a later log checkpoint still tells what it did" if all(version in bridged for version in run) else ""


def _is_lost(run: range) -> str:
    return "is lost" if len(run) == 1 else "are lost"


def _time_findings(entries: Sequence[Entry]) -> list[Finding]:
    """Commit times that run backward. timeseries-table-format promises no order, so among its commits that is a note."""
    found = []
    for (_, _, earlier), (version, commit, time_ns) in pairwise(entries):
        if time_ns < earlier:
            times = f"{format_instant(time_ns)} comes after {format_instant(earlier)}"
            found.append(
                Finding(
                    code="commit-time",
                    path=TIME_SERIES.path_of(version),
                    what=f"the time of version {version} runs backward: {times}",
                    severity="problem" if TIME_SERIES.id_of(commit) else "note",
                )
            )
    return found


def _schema_finding(view: LogView) -> list[Finding]:
    """Live segments of a table without columns: a scan could give none of their rows."""
    if view.state is None or view.state.meta.schema is not None or not view.state.live:
        return []
    what = f"the table has {len(view.state.live)} live segments and no schema: the commit that said it is lost"
    return [Finding(code="schema-lost", path=TIME_SERIES.folder, what=what)]


def strict_versions(view: LogView) -> Mapping[int, bool]:
    """Of each version that adds segments, whether it may cover no bucket that earlier versions cover.

    An append says its own policy; other writers' commits follow the table's, which is to refuse. New layouts of old rows
    cover what they replace.
    """
    meta = None
    strict: dict[int, bool] = {}
    for version, commit, _ in view.entries:
        meta = commit.meta or meta
        said = commit.parameters.get("on_overlap", meta.properties.on_overlap if meta else "reject")
        if any(isinstance(action, AddSegment) for action in commit.actions):
            strict[version] = said != "allow" and all(segment.data_change for segment in commit.added)
    return strict
