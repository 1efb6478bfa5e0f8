"""gapless tables in Apache Spark: sessions, reads at native speed, parallel writes.

Importing this loads no Spark: each function does when it is called.
"""

from gapless.spark.append import overwrite, write
from gapless.spark.frame import read
from gapless.spark.start import configure, session

__all__ = ["configure", "overwrite", "read", "session", "write"]
