"""The earlier path of `gapless.testing.draw_scenario`, which goes on working."""

from gapless.testing.simulation.draw import draw_scenario

__all__ = ["draw_scenario"]
