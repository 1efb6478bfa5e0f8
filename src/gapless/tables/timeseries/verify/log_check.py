"""Verify the log of a time-series table: which versions are lost, which contradict, and the state that is left. Pure.

The hints, CURRENT and _last_checkpoint, may lag and be missing, but never lead or say something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.timeseries.actions import AddSegment, RemoveSegment, TableState
from gapless.formats.timeseries.checkpoint.part import PartRef
from gapless.formats.timeseries.conflict.rows import KEEPS_OVERLAPS
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.formats.timeseries.replay import sidecars_of
from gapless.log.effects import Drive
from gapless.log.format import Snapshot
from gapless.log.snapshot import parse_current
from gapless.model.instant import format_instant
from gapless.tables.shared.findings import Finding, numbers_of
from gapless.tables.timeseries.verify.log_fold import Entry, RecoveredVersions, fold_log


def check_hints(hint: bytes | None, pointer: bytes | None, newest: int, checkpoints: Sequence[int]) -> list[Finding]:
    """What is wrong with the hints of a log whose newest version and believable checkpoints are these.

    That CURRENT leads is not told here: it means a lost commit.
    """
    if newest == 0:
        return []
    return [*_check_current(hint, newest), *_check_pointer(pointer, checkpoints)]


def _check_current(hint: bytes | None, newest: int) -> list[Finding]:
    path = TIME_SERIES.hint
    if hint is None:
        what = f"CURRENT is missing; the newest version is {newest}. gapless finds it without, timeseries-table-format does not"
        return [Finding(code="hint-missing", path=path, what=what, mend="repair", severity="note")]
    named = parse_current(hint)
    if named == 0:
        what = f"CURRENT names no version: it holds {hint[:40]!r}, and the newest version is {newest}"
        return [Finding(code="hint-unreadable", path=path, what=what, mend="repair")]
    if named < newest:
        what = f"CURRENT names version {named}, and the newest is {newest}: a writer ended, or was, between the two"
        return [Finding(code="hint-behind", path=path, what=what, mend="repair", severity="note")]
    return []


def _check_pointer(pointer: bytes | None, checkpoints: Sequence[int]) -> list[Finding]:
    if pointer is None:
        return []
    stored = TIME_SERIES.decode_pointer(pointer)
    named = 0 if stored is None else stored.version
    if named in checkpoints:
        return []
    path = TIME_SERIES.last_checkpoint
    what = f"_last_checkpoint names version {named}" if named else f"_last_checkpoint holds {pointer[:40]!r}"
    return [
        Finding(
            code="checkpoint-hint", path=path, what=f"{what}, and no log checkpoint of that version can be read", mend="repair"
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What lies in a log's folder, in order of version; that of a cleaned log may read its checkpoints more than once."""

    commits: Iterable[tuple[int, bytes]]
    checkpoints: Iterable[tuple[int, bytes]]
    hint: bytes | None
    """CURRENT."""
    checkpoint_hint: bytes | None
    """_last_checkpoint."""
    drive: Drive
    """Reads the parts of log checkpoints."""
    names: frozenset[str] = frozenset()
    """The paths of all that a listing showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """A log, as far as it can be read."""

    newest: int
    """The highest version of which there is a commit or a checkpoint; 0 where there is none."""
    hinted: int
    """The version CURRENT names; 0 where it names none."""
    base: Snapshot[TableState] | None
    """The log checkpoint at which a cleaned log starts; None where it starts at version 1."""
    entries: tuple[Entry, ...]
    """The commits that can be read, of those after `base`."""
    missing: tuple[range, ...]
    """Runs of versions that have no commit file."""
    damaged: tuple[int, ...]
    """Versions whose commit file cannot be read."""
    checkpoints: tuple[int, ...]
    """Versions whose checkpoint agrees with the log."""
    bad_checkpoints: tuple[int, ...]
    """Versions whose checkpoint must not be believed, or lacks a part."""
    lacking: Mapping[int, frozenset[str]]
    """Of these, the versions whose checkpoint is whole but for parts, with the paths of those."""
    parts: frozenset[str]
    """The paths of all parts that a checkpoint names."""
    lost_parts: tuple[PartRef, ...]
    """The parts that are missing or damaged."""
    bridges: tuple[RecoveredVersions, ...]
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
        gone = self.state.removed.values() if self.state else ()
        sidecars = (path for segment in (*live, *added) for path in sidecars_of(segment))
        tombstones = (path for one in gone for path in (one.path, *one.sidecars))
        return frozenset([*(s.path for s in (*live, *added)), *sidecars, *removed, *tombstones])


def examine_log(facts: LogFacts) -> LogView:
    """Read everything that can be read; what cannot becomes a finding."""
    entries, unread = _decoded(facts.commits)
    present = [version for version, _, _ in entries] + [one.version for one in unread]
    fold, base = fold_log(entries, present, facts.checkpoints, facts.drive)
    entries, start = fold.entries, base.version if base else 0
    unread = [one for one in unread if one.version > start]
    present = [version for version in present if version > start]
    newest = max([*present, *fold.good, start])
    hinted = parse_current(facts.hint)
    missing = _gaps(present, max(newest, hinted), start)
    view = LogView(
        newest=newest,
        hinted=hinted,
        base=base,
        entries=tuple(entries),
        missing=missing,
        damaged=tuple(one.version for one in unread if one.finding.code == "commit-damaged"),
        checkpoints=tuple(fold.good),
        bad_checkpoints=tuple(fold.bad),
        lacking=fold.lacking,
        parts=frozenset([*(name.path for name in fold.sound), *fold.lost]),
        lost_parts=tuple(fold.lost.values()),
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


def _gaps(present: Iterable[int], end: int, start: int = 0) -> tuple[range, ...]:
    """The runs of versions after `start` up to `end` that are not present."""
    edges = pairwise([start, *sorted(present), end + 1])
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
    cover what they replace, a correction says whether the rows it carries over lay side by side before, and a restore brings
    back what did.
    """
    meta = view.base.state.meta if view.base else None
    strict: dict[int, bool] = {}
    for version, commit, _ in view.entries:
        meta = commit.meta or meta
        said = commit.parameters.get("on_overlap", meta.properties.on_overlap if meta else "reject")
        if any(isinstance(action, AddSegment) for action in commit.actions):
            inherits = said == "allow" or commit.operation == "restore" or commit.parameters.get(KEEPS_OVERLAPS, False)
            strict[version] = not inherits and all(segment.data_change for segment in commit.added)
    return strict


def writing_versions(view: LogView) -> Mapping[str, int]:
    """The version that wrote each segment, by path, as far as the log has it: a restore adds those again that it brings back."""
    found: dict[str, int] = {}
    if view.base is not None:
        found |= {path: entry.version for path, entry in view.base.state.live.items()}
    for version, commit, _ in view.entries:
        for segment in commit.added:
            found.setdefault(segment.path, version)
    return found
