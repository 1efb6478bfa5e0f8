"""`verify` for time-series tables: gather what the store holds, and hold it against what the log says. It writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid, index_grid
from gapless.errors import GaplessError, ObjectNotFound, StoreError, TableError
from gapless.formats.timeseries.actions import CLAIMS_FOLDER, TableState, is_copy
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.model.index import EntityType
from gapless.model.protocols import Store
from gapless.model.schema import entity_types
from gapless.model.segment import Segment, SidecarCoverage
from gapless.publish.sources.timeseries import TimeSeriesSource
from gapless.runtime.environment import Environment
from gapless.tables.shared.findings import Finding, Progress, VerifyReport, no_progress
from gapless.tables.shared.prepared import PREPARED_FOLDER, PreparedCommit
from gapless.tables.shared.publication.check import check_publications
from gapless.tables.timeseries.verify.log_check import LogFacts, LogView, examine_log, strict_versions, writing_versions
from gapless.tables.timeseries.verify.segment_check import (
    check_bytes,
    check_coverage,
    check_index,
    check_rows,
    find_overlaps,
    observe,
    read_coverage,
)

_FOLDERS = ("data", "_coverage", "_staged", TIME_SERIES.parts_folder)
_FOREIGN = ("data/.hoodie/", "data/.hoodie_partition_metadata", "_coverage/table/", f"{CLAIMS_FOLDER}/")
"""What lies there belongs to a publication, or to timeseries-table-format."""
_ASKED_AGAIN = 1_000
"""Commits asked for although a listing lacks them."""
_LOOKS = 5
"""How often a log is looked at that is being cleaned."""


@dataclass(slots=True)
class Examination:
    """A table's log and what its newest version names, looked at."""

    view: LogView
    findings: list[Finding]
    unsound: set[str] = field(default_factory=set)
    """Live segments whose rows cannot be trusted."""
    lost_coverage: list[Segment] = field(default_factory=list)
    lost_indexes: list[Segment] = field(default_factory=list)
    """Live segments whose sidecar is missing or damaged."""
    bytes_read: int = 0
    unchecked: int = 0


def verify_table(store: Store, *, deep: bool = False, progress: Progress = no_progress) -> VerifyReport:
    """Look at a whole log and at all that its newest version names; `deep` reads every row. Raises StoreError.

    A store without a log gives a report without a version and without a problem.
    """
    examined = examine_table(store, deep=deep, progress=progress)
    view = examined.view
    return VerifyReport(
        url=store.url,
        version=view.newest or None,
        deep=deep,
        commits=len(view.entries),
        segments=len(view.state.live) if view.state else 0,
        bytes_read=examined.bytes_read,
        unchecked=examined.unchecked,
        findings=tuple(examined.findings),
    )


def examine_table(store: Store, *, deep: bool = False, progress: Progress = no_progress) -> Examination:
    """See `verify_table`."""
    # Files first: one whose commit lands while we look is then named by the log.
    stored = [info.path for folder in _FOLDERS for info in store.list(folder)]
    # And documents next: one that is finalized while we look has its files named by the log.
    documents = [info.path for info in store.list(PREPARED_FOLDER) if info.path.endswith(".json")]
    view = _look_at_log(store)
    examined = Examination(view, list(view.findings))
    if view.state is not None:
        _examine_state(store, view.state, examined, deep=deep, progress=progress)
        env = Environment(store=store)
        newest = TimeSeriesSource(env, Snapshot(view.newest, 0, view.state))
        examined.findings += check_publications(env, newest)
    prepared = _examine_prepared(store, documents, examined)
    examined.findings += _unnamed(stored, view, prepared)
    return examined


def _look_at_log(store: Store) -> LogView:
    """The log; looked at again where something is the matter and part of it went meanwhile, as when another process cleans it."""
    for _ in range(_LOOKS):
        facts = gather_log(store)
        view = examine_log(facts)
        if not view.findings or facts.names.issubset(_log_names(store)):
            break
    return view


def _log_names(store: Store) -> list[str]:
    return [info.path for info in store.list(TIME_SERIES.folder)]


def gather_log(store: Store) -> LogFacts:
    """What lies in the log's folder. CURRENT is read before the listing, which so holds at least what it names."""
    hint, pointer = _get(store, TIME_SERIES.hint), _get(store, TIME_SERIES.last_checkpoint)
    names = _log_names(store)
    commits = {v: name for name in names if (v := TIME_SERIES.version_of(name)) is not None}
    checkpoints = {v: name for name in names if (v := TIME_SERIES.checkpoint_of(name)) is not None}
    # A listing may pass over what is stored while it runs, so what it lacks is asked for by name.
    start = _first_kept(store, commits, checkpoints)
    unlisted = (v for v in range(start, max([*commits, *checkpoints], default=0) + 1) if v not in commits)
    commits |= {v: TIME_SERIES.path_of(v) for v in islice(unlisted, _ASKED_AGAIN)}
    return LogFacts(
        commits=_Stored(store, commits),
        checkpoints=_Stored(store, checkpoints),
        hint=hint,
        checkpoint_hint=pointer,
        drive=Environment(store=store).drive,
        names=frozenset(names),
    )


def _first_kept(store: Store, commits: Mapping[int, str], checkpoints: Mapping[int, str]) -> int:
    """The first version whose commit is to be expected: that of a log which seems to be cleaned, else 1."""
    first = min(commits, default=1)
    seems_cleaned = first in checkpoints or first - 1 in checkpoints
    return first if first > 1 and seems_cleaned and _get(store, TIME_SERIES.path_of(1)) is None else 1


@dataclass(frozen=True, slots=True)
class _Stored:
    """Objects by version, which are read each time they are gone through."""

    store: Store
    paths: Mapping[int, str]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for version in sorted(self.paths):
            data = _get(self.store, self.paths[version])
            if data is not None:
                yield version, data


def _get(store: Store, path: str) -> bytes | None:
    try:
        return store.get(path)
    except ObjectNotFound:
        return None


def _examine_state(store: Store, state: TableState, examined: Examination, *, deep: bool, progress: Progress) -> None:
    live = list(state.live.values())
    schema, index = state.meta.schema, state.meta.index
    grid = index_grid(index)
    coverage: dict[str, CoverageMap] = {}
    for done, entry in enumerate(live):
        progress(done, len(live))
        _examine_bytes(store, entry.segment, examined)
        if schema is None:
            continue
        logged = _examine_coverage(store, entry.segment, entity_types(schema, index), examined)
        if logged is not None:
            coverage[entry.segment.path] = logged
        if deep and entry.segment.path not in examined.unsound:
            _examine_rows(store, entry.segment, state, grid, logged, examined)
    progress(len(live), len(live))
    written = writing_versions(examined.view)
    by_writer = [replace(entry, version=written.get(entry.segment.path, entry.version)) for entry in live]
    examined.findings += find_overlaps(by_writer, coverage, strict_versions(examined.view), state.meta, grid)


def _examine_bytes(store: Store, segment: Segment, examined: Examination) -> None:
    found = check_bytes(store, segment)
    examined.findings += found.findings
    examined.bytes_read += found.bytes_read
    examined.unchecked += not found.checked
    if found.findings:
        examined.unsound.add(segment.path)


def _examine_coverage(
    store: Store, segment: Segment, types: tuple[EntityType, ...], examined: Examination
) -> CoverageMap | None:
    """A segment's coverage; a finding where there is none, which `repair` makes again only if the segment itself is sound."""
    found = read_coverage(store, segment, types)
    if wrong := check_index(store, segment):
        examined.findings += wrong
        examined.lost_indexes.append(segment)
    if not isinstance(found, Finding):
        return found
    if isinstance(segment.coverage, SidecarCoverage):
        examined.lost_coverage.append(segment)
    unsound = segment.path in examined.unsound
    examined.findings.append(replace(found, mend="no") if unsound else found)
    return None


def _examine_rows(
    store: Store, segment: Segment, state: TableState, grid: Grid, logged: CoverageMap | None, examined: Examination
) -> None:
    meta = state.meta
    assert meta.schema is not None
    try:
        observed = observe(store, segment, meta.ids.physical_schema(meta.schema), meta.index, grid)
    except StoreError:
        raise
    except GaplessError as error:
        what = f"segment {segment.path} cannot be read: {error.what}"
        examined.findings.append(Finding(code="segment-unreadable", path=segment.path, what=what))
        examined.unsound.add(segment.path)
        return
    examined.findings += check_rows(segment, observed)
    if logged is not None:
        free = isinstance(segment.coverage, SidecarCoverage) and segment.coverage.checksum is None
        examined.findings += check_coverage(segment, logged, observed.coverage, "repair" if free else "no")
        if free and logged != observed.coverage:
            examined.lost_coverage.append(segment)


def _examine_prepared(store: Store, documents: Sequence[str], examined: Examination) -> Mapping[str, PreparedCommit]:
    """Prepared commits by the objects that they need; a finding for each document that cannot be read."""
    found: dict[str, PreparedCommit] = {}
    for path in documents:
        data = _get(store, path)
        if data is None:  # finalized or aborted since it was listed
            continue
        try:
            prepared = PreparedCommit.from_json(data, path)
        except TableError as error:
            what = f"{error.what}: what it keeps is not known, so that vacuum stops"
            examined.findings.append(Finding(code="prepared-unreadable", path=path, what=what))
        else:
            found |= dict.fromkeys(prepared.needs, prepared)
    return found


def _unnamed(stored: Sequence[str], view: LogView, prepared: Mapping[str, PreparedCommit]) -> list[Finding]:
    """Files that no version names: what a prepared commit keeps, what an interrupted write left, or one that is under way."""
    named = view.named | view.parts
    unnamed = [path for path in stored if not (path in named or path.startswith(_FOREIGN) or is_copy(path))]
    return [_prepared(path, one) if (one := prepared.get(path)) is not None else _orphan(path) for path in unnamed]


def _prepared(path: str, by: PreparedCommit) -> Finding:
    what = f"checkpoint {by.checkpoint_id} of {by.operation.app} keeps {path} until it is finalized or aborted"
    return Finding(code="prepared", path=path, what=what, severity="note")


def _orphan(path: str) -> Finding:
    what = f"no version names {path}: a write was interrupted, or is under way"
    return Finding(code="orphan", path=path, what=what, severity="note")
