"""gapless tables in Apache Spark: sessions, reads at native speed, parallel writes and corrections, streams exactly once.

Importing this loads no Spark: each function does when it is called.
"""

from gapless.spark.checkpoint.check import check_checkpoint
from gapless.spark.correct.backfill import backfill
from gapless.spark.correct.compact import compact
from gapless.spark.correct.corrections import delete, replace, upsert
from gapless.spark.reading.frame import read
from gapless.spark.setup.start import archive, configure, session, ship
from gapless.spark.stream.batch_writer import batch_writer
from gapless.spark.writing.append import overwrite, write

__all__ = [
    "archive", "backfill", "batch_writer", "check_checkpoint", "compact", "configure", "delete", "overwrite", "read", "replace",
    "session", "ship", "upsert", "write",
]  # fmt: skip
