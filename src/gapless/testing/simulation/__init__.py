"""Simulated histories of tables by many writers, all of it decided by a seed: `simulate(seed=7)`."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.testing.simulation.simulation import Run, simulate

__all__ = ["Run", "simulate"]


def __getattr__(name: str) -> object:
    """Bring a public name in when it is first used (PEP 562): the modules of this folder import it."""
    if name not in __all__:
        raise AttributeError(f"module 'gapless.testing.simulation' has no attribute {name!r}")
    return getattr(import_module("gapless.testing.simulation.simulation"), name)
