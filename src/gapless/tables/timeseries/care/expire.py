"""Expire versions of a time-series table: the log says which are kept no longer and, where asked, is cleaned of their commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gapless.errors import InvalidOption
from gapless.formats.timeseries.actions import Action, ExpireVersions, SetTransaction, TableState, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import CLEANUP_FEATURE, with_features
from gapless.formats.timeseries.conflict.maintenance import check_expiry
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.cleanup import clean, find_floor
from gapless.log.format import Snapshot
from gapless.log.versions import TooEarly, version_at
from gapless.model.operation import Tally
from gapless.model.protocols import WRITER_HORIZON_NS
from gapless.publish.source import published_mark
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment
from gapless.tables.shared.publication.publications import described_still
from gapless.tables.shared.vacuum import parse_age
from gapless.tables.timeseries.care.vacuum import load_newest
from gapless.tables.timeseries.context import SeriesCommitter, SeriesProposal, new_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireReport:
    """What `expire` did."""

    url: str
    version: int
    """The newest version; its own where it made a commit."""
    earliest: int
    """Versions below are expired."""
    expired: int
    """Versions that this expired, tagged ones not counted."""
    tags: tuple[str, ...]
    """Tags that keep an expired version readable."""
    removed: tuple[str, ...] = ()
    """Commits, log checkpoints and parts of these that the log was cleaned of, by path."""
    waits_for: tuple[str, ...] = ()
    """Formats in which the table is published that keep versions from expiring, since they describe one of them still."""
    published: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As in `AppendReport`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What may expire; both given, a version stays that either keeps."""

    keep_versions: int | None
    """How many of the newest versions stay."""
    older_than_ns: int | None
    """How long ago a version must have ceased to be the newest, in nanoseconds."""

    def boundary(self, env: Environment, snapshot: Snapshot[TableState]) -> int:
        """The version below which all may expire, once a commit after `snapshot` says so. Raises CorruptTable, StoreError."""
        return min(self._by_count(snapshot), self._by_age(env, snapshot))

    def _by_count(self, snapshot: Snapshot[TableState]) -> int:
        newest, earliest = snapshot.version, snapshot.state.earliest
        if self.keep_versions is None:
            return newest
        # The commit that says so is one of those that stay.
        return earliest if newest - earliest < self.keep_versions else newest + 2 - self.keep_versions

    def _by_age(self, env: Environment, snapshot: Snapshot[TableState]) -> int:
        if self.older_than_ns is None:
            return snapshot.version + 1
        # The version that was the newest then, or the earliest that is kept.
        earliest, time_ns = snapshot.state.earliest, env.clock.now_ns() - self.older_than_ns
        found = env.drive(version_at(TIME_SERIES, snapshot, time_ns, first=earliest))
        return earliest if isinstance(found, TooEarly) else found


def parse_expiry(keep_versions: object, older_than: object) -> Expiry:
    """Check what a caller gave; raises InvalidOption."""
    if keep_versions is None and older_than is None:
        raise InvalidOption(
            "expire() does not say which versions are to stay",
            why="Without a rule all but the newest would go",
            fix="Pass keep_versions=100, older_than=timedelta(days=30), or both: then a version stays that either keeps",
            option="keep_versions",
            value=None,
        )
    if keep_versions is not None and (
        not isinstance(keep_versions, int) or isinstance(keep_versions, bool) or keep_versions < 1
    ):
        raise InvalidOption(
            f"keep_versions={keep_versions!r} is no count of versions to keep",
            why="The newest version always stays",
            fix="Pass a whole number from 1 up",
            option="keep_versions",
            value=keep_versions,
        )
    return Expiry(
        keep_versions=keep_versions, older_than_ns=None if older_than is None else parse_age("older_than", older_than)
    )


@dataclass(slots=True, kw_only=True)
class _Expire:
    env: Environment
    expiry: Expiry
    clean_log: bool
    horizon_ns: int
    marks: Callable[[Snapshot[TableState]], Mapping[str, int]]
    """Of a version of the table, the version that each format describes in which it is published; 0 where that is not known."""
    published: Mapping[str, int] = field(default_factory=dict)
    """What that was for the last proposal."""
    waits_for: tuple[str, ...] = ()
    """The formats that held the last proposal back."""
    floor: int = 1
    """The first version whose commit must stay, by the last proposal: it is kept, or younger than the writer horizon."""

    def propose(self, snapshot: Snapshot[TableState]) -> SeriesProposal | None:
        """The commit that expires versions, and says that the log may be cleaned where that is new; None where both are said."""
        meta, earliest = snapshot.state.meta, snapshot.state.earliest
        self.published = self.marks(snapshot)
        before = max(earliest, self._not_published_past(snapshot, self.expiry.boundary(self.env, snapshot)))
        actions: list[Action] = [ExpireVersions(before)] if before > earliest else []
        if self.clean_log:
            cutoff_ns = self.env.clock.now_ns() - self.horizon_ns
            self.floor = self.env.drive(find_floor(TIME_SERIES, before, cutoff_ns))
        if self.floor > 1 and CLEANUP_FEATURE not in meta.reader_features:
            featured = with_features(meta)
            actions.insert(0, UpdateTableMeta(replace(featured, reader_features=featured.reader_features | {CLEANUP_FEATURE})))
        if not actions:
            return None
        actions += _new_marks(self.published, snapshot.state)
        entry = new_commit(self.env, "expire", {"before": before, "clean_log": self.clean_log}, actions)
        return Proposal(commit=entry, check_conflict=check_expiry)

    def _not_published_past(self, snapshot: Snapshot[TableState], before: int) -> int:
        """The boundary, or the version that a format describes still, unless its publisher stands still for longer than `PUBLISHER_HORIZON_NS`."""
        # This commit takes no segment away: who describes the version before it describes it too.
        newest, earliest = min(before, snapshot.version), snapshot.state.earliest
        held = described_still(self.env, TIME_SERIES, self.published, newest=newest, earliest=earliest)
        self.waits_for = tuple(held)
        return min([before, *held.values()])


def expire_versions(
    committer: SeriesCommitter,
    expiry: Expiry,
    *,
    clean_log: bool = False,
    horizon_ns: int = WRITER_HORIZON_NS,
    published: Callable[[Snapshot[TableState]], Mapping[str, int]] = lambda _: {},
) -> ExpireReport:
    """Expire versions by one commit; with `clean_log` then remove commits and log checkpoints that no version that is kept needs.

    Cleaning takes nothing younger than `horizon_ns` (nanoseconds, by commit time), and comes after a commit that keeps readers out
    which need commit 1. What a format describes still, by `published` of the version that the commit follows, stays. Raises TableNotFound, CorruptTable, UnsupportedTable, CommitConflict, CommitOutcomeUnknown, StoreError.
    """
    env = committer.env
    before = load_newest(env)
    act = _Expire(env=env, expiry=expiry, clean_log=clean_log, horizon_ns=horizon_ns, marks=published)
    landed = committer.land(before, act.propose)
    snapshot = before if landed is None else landed
    state = snapshot.state
    removed = env.drive(clean(TIME_SERIES, act.floor, state.tags.values())) if clean_log else ()
    expired = range(before.state.earliest, state.earliest)
    return ExpireReport(
        url=env.store.url,
        version=snapshot.version,
        earliest=state.earliest,
        expired=sum(version not in state.tags.values() for version in expired),
        tags=tuple(sorted(name for name, version in state.tags.items() if version < state.earliest)),
        removed=removed,
        waits_for=act.waits_for,
    )


def _new_marks(marks: Mapping[str, int], state: TableState) -> list[SetTransaction]:
    """What a commit tells of published versions that the log does not know yet."""
    told = [published_mark(name, version) for name, version in marks.items() if version]
    return [SetTransaction(mark, Tally(), "publish") for mark in told if state.recognise(mark) is None]
