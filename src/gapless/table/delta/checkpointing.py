"""Log checkpoints of a Delta table, and the log's beginning that nobody needs any more."""

from __future__ import annotations

from datetime import timedelta

from gapless.dialects.delta.dialect import DELTA
from gapless.dialects.delta.properties import Settings
from gapless.errors import ObjectNotFound, StoreUnavailable
from gapless.log.checkpoint_writing import write_checkpoint
from gapless.log.cleanup import clean, find_floor
from gapless.maintain.delta.retention import parse_retention
from gapless.model.horizon import WRITER_HORIZON_NS
from gapless.table.delta.handle import DeltaHandle


class Checkpointing(DeltaHandle):
    """A Delta table's log, kept short."""

    def checkpoint(self) -> int:
        """Store a log checkpoint of the newest version, where there is none, so that opening needs no commit before it; returns the version.

        One is written by itself every `delta.checkpointInterval` commits. Raises UnsupportedTable, StoreError.
        """
        newest = self._committer.refresh(self._snapshot)
        self._check_writable()
        self._rim.drive(write_checkpoint(DELTA, newest))
        path = DELTA.checkpoint_path(newest.version)
        try:
            self._rim.store.head(path)
        except ObjectNotFound as error:
            raise StoreUnavailable(
                f"the log checkpoint {path} was not written",
                why="The store did not take it; see the warning",
                fix="Try again",
                path=path,
            ) from error
        return newest.version

    def cleanup_log(self, older_than: timedelta | None = None, *, enforce_retention: bool = True) -> tuple[str, ...]:
        """Remove commits and log checkpoints that no version needs which was the newest within the last `older_than`; returns their paths.

        Args:
            older_than: By commit time; where not given, the table's `delta.logRetentionDuration`, else 30 days. No commit younger than a day
                goes in any case.
            enforce_retention: With False `older_than` may be shorter than that.

        Versions whose commits are gone can be read no longer, nor their changes. Two checkpoints are stored and read back before anything
        goes, in the form that every reader of Delta knows. Raises InvalidOption, UnsupportedTable, CorruptTable, StoreError.
        """
        newest = self._committer.refresh(self._snapshot)
        self._check_writable()
        kept = Settings.of(newest.state.configuration).log_retention
        asked_ns = parse_retention(older_than, kept, "delta.logRetentionDuration", enforce=enforce_retention)
        cutoff_ns = self._rim.clock.now_ns() - max(asked_ns, WRITER_HORIZON_NS)
        floor = self._rim.drive(find_floor(DELTA, newest.version, cutoff_ns))
        return self._rim.drive(clean(DELTA, floor, ()))
