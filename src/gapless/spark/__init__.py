"""gapless tables in Apache Spark: sessions, reads at native speed, parallel writes and corrections, streams exactly once.

Importing this loads no Spark: each function does when it is called.
"""

from gapless.spark.append import overwrite, write
from gapless.spark.backfill import backfill
from gapless.spark.batch_writer import batch_writer
from gapless.spark.checkpoint import check_checkpoint
from gapless.spark.compact import compact
from gapless.spark.corrections import delete, replace, upsert
from gapless.spark.frame import read
from gapless.spark.ship import archive, ship
from gapless.spark.start import configure, session

__all__ = [
    "archive", "backfill", "batch_writer", "check_checkpoint", "compact", "configure", "delete", "overwrite", "read", "replace",
    "session", "ship", "upsert", "write",
]  # fmt: skip
