"""Maintenance of time-series tables: compaction, also after appends where properties ask for it, expiry and vacuum."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from gapless.errors import GaplessError, LogWarning
from gapless.formats.timeseries.actions import TableState
from gapless.log.format import Snapshot
from gapless.model.properties import Properties
from gapless.tables.shared.compaction import TARGET_BYTES, CompactionReport
from gapless.tables.shared.vacuum import VacuumReport
from gapless.tables.timeseries.care.compact import Compactor
from gapless.tables.timeseries.care.compact_plan import CompactionPlan, CompactOptions
from gapless.tables.timeseries.care.expire import ExpireReport, expire_versions, parse_expiry
from gapless.tables.timeseries.care.vacuum import vacuum_table
from gapless.tables.timeseries.handle import Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCompaction:
    """When to compact, and what that may cost."""

    segments: int
    """Small segments that may gather; at least 1."""
    options: CompactOptions

    @classmethod
    def of(cls, properties: Properties) -> AutoCompaction | None:
        """What the properties ask for; None where that is nothing."""
        if not properties.auto_compact_segments:
            return None
        budget = properties.auto_compact_bytes
        return cls(
            segments=properties.auto_compact_segments,
            options=CompactOptions(target_size=min(TARGET_BYTES, budget), max_bytes=budget),
        )

    def is_due(self, before: int, now: int) -> bool:
        """Whether to look at the segments after a move from version `before` to `now`.

        So rarely that what looking costs, which grows with the table, is shared by half as many appends as segments may gather.
        """
        every = max(1, self.segments // 2)
        return now // every > before // every

    def run(self, compactor: Compactor, snapshot: Snapshot[TableState]) -> list[str]:
        """Compact if more small segments gathered than may; returns what is wrong with segments. Raises as `Compactor.compact`."""
        if _gathered(compactor.plan(snapshot)) <= self.segments:
            return []
        return [one.why for one in compactor.compact(snapshot).given_up if not one.overtaken]


def _gathered(plan: CompactionPlan) -> int:
    """How many segments a compaction without a budget would take up."""
    return plan.segments + sum(rest == "left for later" for rest in plan.left.values())


class Maintenance(Handle):
    """Compaction, expiry and vacuum: they change where rows lie and what is kept, and never which rows there are."""

    # -- compaction ----------------------------------------------------------------------------------------------------

    def plan_compaction(
        self,
        *,
        target_size: int = TARGET_BYTES,
        window: str | int | None = None,
        codec: str | None = None,
        cluster_by: str | Sequence[str] = (),
        resort: bool = False,
    ) -> CompactionPlan:
        """What `compact` would begin with at the newest version, changing nothing; `.explain()` says it in words.

        Arguments and errors are those of `compact`.
        """
        options = self._compact_options(target_size, window, codec, cluster_by, resort=resort)
        return self._compactor(options).plan(self._committer.refresh(self._snapshot))

    def compact(
        self,
        *,
        target_size: int = TARGET_BYTES,
        window: str | int | None = None,
        codec: str | None = None,
        cluster_by: str | Sequence[str] = (),
        resort: bool = False,
    ) -> CompactionReport:
        """Write small segments together as larger ones, sorted by entity and index; the same rows, and no change for change readers.

        Args:
            target_size: Bytes of Parquet that a segment shall have; those of at least half of it stay as they are. Where rows of several
                identities must be sorted, a segment ends earlier, at about 256 MiB of Arrow memory.
            window: A stretch of the index, as a bucket is spelled ("1d", "1mo", 1000): no segment written crosses its edges, and those that
                do now stay whole.
            codec: Also write segments again that were written with another codec, whatever their size.
            cluster_by: One to four columns: rows then lie along their z-order, in place of the order of entity and index, and segments of any
                size that do not are written again. Filters on any of these columns read fewer row groups; scans sort.
            resort: Also write segments of any size again that scans must sort, by themselves or because they overlap.

        Runs beside appends, upserts and readers: a few bins a commit, judged against the version they were read from. Bins that other changes
        overtook stay as they are, and the report says so; what was appended meanwhile waits for the next run. Replaced files stay for older
        versions until vacuum. Memory stays within about four times 256 MiB. A second run finds nothing to do.

        Raises InvalidOption, UnknownColumn, UnsupportedType, UpgradeNeeded, CorruptTable, CommitOutcomeUnknown, StoreError.
        """
        options = self._compact_options(target_size, window, codec, cluster_by, resort=resort)
        self._check_writable()
        return self._with_publications(self._compactor(options).compact(self._committer.refresh(self._snapshot)))

    def _compact_when_due(self, before: int) -> None:
        """Compact after an append that moved the handle on from version `before`, where the table's properties ask for it.

        The append is committed: what fails here is a LogWarning.
        """
        auto = AutoCompaction.of(self.properties)
        if auto is None or not auto.is_due(before, self.version) or not self._compacting.take_if_free():
            return  # where another thread compacts, a second would only do the same work and lose
        try:
            for problem in auto.run(self._compactor(auto.options), self._snapshot):
                warnings.warn(f"auto-compaction: {problem}", LogWarning, stacklevel=4)
        except Exception as error:  # noqa: BLE001  # whatever it is, the rows are in the table
            what = error.what if isinstance(error, GaplessError) else repr(error)
            warnings.warn(f"auto-compaction failed, and the append stands: {what}", LogWarning, stacklevel=4)
        finally:
            self._compacting.release()

    def _compact_options(
        self, target_size: int, window: str | int | None, codec: str | None, cluster_by: str | Sequence[str], *, resort: bool
    ) -> CompactOptions:
        return CompactOptions.parse(
            target_size=target_size,
            window=window,
            codec=codec,
            cluster_by=cluster_by,
            resort=resort,
            index=self.index,
            schema=self.schema,
        )

    def _compactor(self, options: CompactOptions) -> Compactor:
        return Compactor(context=self._context, options=options)

    # -- what is kept --------------------------------------------------------------------------------------------------

    def expire(
        self, *, keep_versions: int | None = None, older_than: timedelta | None = None, clean_log: bool = False
    ) -> ExpireReport:
        """Expire old versions: they can be read no longer, and `vacuum` then frees what only they had.

        Args:
            keep_versions: How many of the newest versions stay, that of this commit among them; at least 1.
            older_than: Versions stay that were the newest within this time, by commit time; the newest always stays.
            clean_log: Also remove the commits of expired versions and the log checkpoints that only they need. The log then starts at
                a log checkpoint, so the table gets a reader feature: timeseries-table-format 0.9.0 can read it no more. Two checkpoints
                are written and read back first, and one for each tag; no commit younger than a day goes.

        With both, a version stays that either keeps. Versions that a tag names always stay. Nothing is committed where nothing expires.
        A version that another format describes still stays with those after it, and the report says whom it waits for; not for longer than
        seven days after the first commit that was not published.
        Raises InvalidOption, UpgradeNeeded, CorruptTable, CommitOutcomeUnknown, StoreError.
        """
        expiry = parse_expiry(keep_versions, older_than)
        newest = self._committer.refresh(self._snapshot)
        self._check_writable()
        self._follow(newest)
        report = expire_versions(
            self._committer, expiry, clean_log=clean_log, published=lambda now: self._publications.marks(self._source(now))
        )
        return self._with_publications(report)

    def vacuum(self, older_than: timedelta = timedelta(days=7), *, dry_run: bool = True) -> VacuumReport:
        """Delete files that no version needs which is kept: those that only expired versions had, and what interrupted writes left.

        Args:
            older_than: How long ago a segment must have been removed, by commit time, or written and never committed. What was never
                committed stays for a day in any case: a writer at work may be about to commit it.
            dry_run: Only say what would go; with False it goes.

        The report has a reason for each file. A commit names what goes before it goes, so that killed at any moment nothing is lost, and
        the next call takes the rest. Names that are not ours are never touched, nor what lies beyond a symbolic link. All versions are
        kept until `expire`. Raises InvalidOption, UpgradeNeeded, CorruptTable (then nothing was deleted),
        CommitConflict, CommitOutcomeUnknown, StoreError.
        """
        if not dry_run:
            self._committer.refresh(self._snapshot)
            self._check_writable()
        return self._with_publications(vacuum_table(self._committer, older_than=older_than, dry_run=dry_run))
