"""Where Spark finds `format("gapless")` by itself: it looks through top-level modules of such names for a `DefaultSource`."""

from gapless.spark.source import GaplessSource as DefaultSource

__all__ = ["DefaultSource"]
