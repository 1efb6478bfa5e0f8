"""The earlier path of `gapless.testing.Faults`, `gapless.testing.SimStore`, which goes on working."""

from gapless.testing.store.stores import Faults, SimStore

__all__ = ["Faults", "SimStore"]
