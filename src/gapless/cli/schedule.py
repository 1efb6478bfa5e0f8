"""`maintain`: compaction, expiry and vacuum on a schedule, until Ctrl-C."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict, dataclass
from threading import Event
from typing import Annotated

from gapless.cli.maintain import compaction_text, expiry_text, vacuum_text
from gapless.cli.options import JsonFlag, TableRef, UpgradeFlag, file_noun, flag, option, refuse_given
from gapless.cli.show.console import print_line, write_json
from gapless.draw.label import printable
from gapless.errors import GaplessError
from gapless.runtime.scheduler import Scheduler
from gapless.tables.maintenance import Maintenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """What is done, and when."""

    compact: Annotated[str | None, option("WHEN", 'Compact small files: "10 minutes", or cron such as "0 3 * * *".')] = None
    expire: Annotated[str | None, option("WHEN", "Let go of old versions of a time-series table.")] = None
    vacuum: Annotated[str | None, option("WHEN", "Delete files that no version needs which is kept.")] = None
    expire_older_than: Annotated[
        str | None, option("AGE", "With --expire: versions that ceased to be the newest longer ago than this, such as 30d.")
    ] = None
    vacuum_older_than: Annotated[
        str | None,
        option("AGE", "How long ago a file must have been removed; 7d, and of a Delta table what its retention says."),
    ] = None
    timezone: Annotated[str | None, option("ZONE", "Whose clock cron goes by, such as Europe/Berlin; UTC.")] = None
    jitter: Annotated[str | None, option("TIME", "Be due later by up to this, by how much depends on the place.")] = None


def maintain(
    table: TableRef,
    tasks: Tasks,
    once: Annotated[bool, flag("--once", "Do all of it now, once, and end.")] = False,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Look after a table on a schedule, beside whoever writes to it, until Ctrl-C: compaction, expiry, vacuum.

    What is done is said on stderr, errors too, and the next time comes all the same. Times that were missed are made up for once. An
    interval of compaction becomes shorter while many small files come, and longer while none do or other changes keep coming first.

    Example: gapless maintain prices --compact "10 minutes" --vacuum "0 3 * * *"
    """
    opened = table.open(upgrade=upgrade)
    given = {name: value for name, value in asdict(tasks).items() if value is not None}
    maintenance = Maintenance(opened, **given)
    if not once:
        refuse_given({"json": json}, "Without --once it has no end, and so no report", "Add --once, or leave it out")
        serve(maintenance)
        return
    report = maintenance.run_once()
    if json:
        write_json({"table": opened.url, **asdict(report)})
        return
    if report.compaction is not None:
        print_line(compaction_text(report.compaction, file_noun(opened)))
    if report.expiry is not None:
        print_line(printable(expiry_text(report.expiry)))
    if report.vacuum is not None:
        print_line(vacuum_text(report.vacuum))


def serve(jobs: Maintenance | Scheduler) -> None:
    """Run jobs until Ctrl-C, which waits for what is at work; a second one does not. What they do is said on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("gapless")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    for name, status in jobs.status.items():
        logger.info("%s: %s", name, status.schedule)
    with jobs:
        Event().wait()


class _Lines(logging.Formatter):
    """Errors that say what to do need no traceback."""

    def formatException(self, ei: object) -> str:  # noqa: N802  # logging calls it so
        error = ei[1] if isinstance(ei, tuple) else None
        return str(error) if isinstance(error, GaplessError) else super().formatException(ei)  # type: ignore[arg-type]
