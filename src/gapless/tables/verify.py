"""`gl.verify` and `gl.repair`: look for damage in a table of either kind, even in one that does not open."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.formats.timeseries.format import TIME_SERIES
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_absent
from gapless.tables.delta.care.repair import repair_delta
from gapless.tables.delta.care.verify import verify_delta
from gapless.tables.shared.findings import Progress, RepairReport, VerifyReport, no_progress
from gapless.tables.shared.handle import Location, kind_of, kind_of_any, open_environment
from gapless.tables.timeseries.lifecycle import no_table
from gapless.tables.timeseries.verify.repair import repair_table
from gapless.tables.timeseries.verify.verify import verify_table


def verify(
    path: Location,
    *,
    deep: bool = False,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Look for damage in a table of either kind, even in one that does not open; writes nothing.

    Reads the whole log, its checkpoints and hints, and of the newest version the bytes of every segment and the coverage, and holds
    them against their checksums and against each other. `deep` decodes every row as well, with Parquet's page checksums, and compares
    row counts, bounds, statistics and coverage: what `table.sql` and other engines, which check nothing, rely on. `progress` is told
    the segments done, and all there are. Of a Delta table, whose log has no checksums of data files: their sizes, footers and deletion
    vectors; `deep` compares row counts and statistics.

    Returns a `VerifyReport` whose `ok` says whether there is no problem. Raises TableNotFound, InvalidPath, StoreError.
    """
    env = open_environment(path, storage_options)
    if kind_of(env.store) == "delta":
        return verify_delta(env, deep=deep, progress=progress or no_progress)
    _require_log(env, path)
    return verify_table(env.store, deep=deep, progress=progress or no_progress)


def repair(
    path: Location,
    *,
    apply: bool = False,
    accept_loss: bool = False,
    deep: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> RepairReport:
    """Repair what can be repaired of a damaged table; without `apply` only say what would be done, and change nothing.

    Repairs CURRENT, log checkpoints and their hint, and coverage sidecars (made again from the rows, and only where they then have the
    checksum that the log names). With `accept_loss` a lost or unreadable commit gets another under its number, `operation: "repair"`:
    empty, or with what a later log checkpoint still tells of it. Then the table opens again, and what else that commit did, its rows and
    operation ids among it, stays lost. A file that is replaced or removed is kept under `_timeseries_log/_damaged/`. Segments cannot be
    repaired: bring them back from a backup.

    Of a Delta table only what is published in other formats is mended. `deep` looks as `verify(deep=True)` does. No other writer should be at work. Returns a `RepairReport`, whose `left` are the problems
    that remain. Raises TableNotFound, InvalidPath, StoreError.
    """
    env = open_environment(path, storage_options)
    if kind_of(env.store) == "delta":
        return repair_delta(env, apply=apply, deep=deep)
    _require_log(env, path)
    if apply:
        probe_put_if_absent(env.store)
    return repair_table(env, apply=apply, accept_loss=accept_loss, deep=deep)


def _require_log(env: Environment, path: Location) -> None:
    """Raise TableNotFound where nothing of a log is stored."""
    known = (TIME_SERIES.version_of, TIME_SERIES.checkpoint_of)
    for info in env.store.list(TIME_SERIES.folder):
        if info.path in (TIME_SERIES.hint, TIME_SERIES.last_checkpoint) or any(of(info.path) is not None for of in known):
            return
    raise no_table(str(path), kind_of_any(env.store))
