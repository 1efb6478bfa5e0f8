"""gapless tables in Apache Spark: sessions, reads at native speed, parallel writes and corrections, streams exactly once.

Importing this loads no Spark: each function does when it is called.
"""

from typing import TYPE_CHECKING

from gapless._names import names_of

if TYPE_CHECKING:
    from gapless.spark.checkpoint.check import check_checkpoint
    from gapless.spark.correct.backfill import backfill
    from gapless.spark.correct.compact import compact
    from gapless.spark.correct.corrections import delete, replace, upsert
    from gapless.spark.correct.delta_merge import merge
    from gapless.spark.reading.frame import read
    from gapless.spark.setup.start import archive, configure, session, ship
    from gapless.spark.stream.batch_writer import batch_writer
    from gapless.spark.writing.append import overwrite, write

__all__ = [
    "archive", "backfill", "batch_writer", "check_checkpoint", "compact", "configure", "delete", "merge", "overwrite", "read", "replace",
    "session", "ship", "upsert", "write",
]  # fmt: skip

_NAMES_OF = {
    "gapless.spark.checkpoint.check": ("check_checkpoint",),
    "gapless.spark.correct.backfill": ("backfill",),
    "gapless.spark.correct.compact": ("compact",),
    "gapless.spark.correct.corrections": (
        "delete",
        "replace",
        "upsert",
    ),
    "gapless.spark.correct.delta_merge": ("merge",),
    "gapless.spark.reading.frame": ("read",),
    "gapless.spark.setup.start": (
        "archive",
        "configure",
        "session",
        "ship",
    ),
    "gapless.spark.stream.batch_writer": ("batch_writer",),
    "gapless.spark.writing.append": (
        "overwrite",
        "write",
    ),
}

__getattr__ = names_of(__name__, _NAMES_OF, globals())
