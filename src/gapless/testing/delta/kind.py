"""The earlier path of `gapless.testing.DELTA_TABLE`, which goes on working."""

from gapless.testing.simulation.delta_kind import DELTA_TABLE

__all__ = ["DELTA_TABLE"]
