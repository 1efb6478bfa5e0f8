"""The earlier path of `gapless.testing.Timeline`, which goes on working."""

from gapless.testing.simulation.timeline import Timeline

__all__ = ["Timeline"]
