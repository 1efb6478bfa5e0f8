"""`verify` for Delta tables: the log's bytes, and what its newest version names. It writes nothing."""

from __future__ import annotations

from collections.abc import Callable

from gapless.dialects.delta.actions import TableState
from gapless.dialects.delta.dialect import DELTA
from gapless.dialects.delta.features import check_readable
from gapless.errors import UnsupportedTable
from gapless.maintain.delta.file_check import FileCheck
from gapless.maintain.delta.log_check import examine_delta_log
from gapless.maintain.finding import Finding, VerifyReport
from gapless.parquet.delta.read import FileReader
from gapless.runtime.driver import Rim

Progress = Callable[[int, int], None]
"""Told how many files are done, and of how many."""


def _nothing(_done: int, _total: int) -> None:
    """Nobody watches."""


def verify_delta(rim: Rim, *, deep: bool = False, progress: Progress = _nothing) -> VerifyReport:
    """Look at a whole log, and at every live file: its size, its footer's number of rows, its deletion vector; `deep` reads every row.

    Delta's log has no checksums of data files, so `unchecked` counts them all. Raises StoreError.
    """
    view = examine_delta_log(rim)
    findings: list[Finding] = list(view.findings)
    files = [] if view.state is None else list(view.state.files.values())
    if view.state is not None and not (unsupported := _unsupported(rim, view.state)):
        metadata = view.state.metadata
        check = FileCheck(metadata=metadata, reader=FileReader.of(rim.store, metadata))
        for done, file in enumerate(files, 1):
            findings += check.look(file, deep=deep)
            progress(done, len(files))
    elif view.state is not None:
        findings += unsupported
    return VerifyReport(
        url=rim.store.url,
        version=view.newest,
        deep=deep,
        commits=view.commits,
        segments=len(files),
        bytes_read=0,
        unchecked=len(files),
        findings=tuple(findings),
    )


def _unsupported(rim: Rim, state: TableState) -> list[Finding]:
    """What is to be said of a table that this release cannot read."""
    try:
        check_readable(state.protocol, rim.store.url, state.metadata)
    except UnsupportedTable as error:
        return [Finding(code="commit-unsupported", path=DELTA.folder, what=error.what)]
    return []
