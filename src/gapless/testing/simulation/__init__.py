"""Simulated histories of tables by many writers, all of it decided by a seed: `simulate(seed=7)`."""

from typing import TYPE_CHECKING

from gapless._names import names_of

if TYPE_CHECKING:
    from gapless.testing.simulation.simulation import Run, simulate

__all__ = ["Run", "simulate"]


# The modules of that folder import this one.
__getattr__ = names_of(__name__, {"gapless.testing.simulation.simulation": ("Run", "simulate")}, globals())
