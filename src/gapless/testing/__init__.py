"""For those who extend gapless: the contracts of stores, sinks and sources, stores that fail, and a simulation of many writers.

Importing this loads nothing: each name below brings its module in when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.testing.connect.sink_contract import SinkContract
    from gapless.testing.connect.source_contract import SourceContract
    from gapless.testing.simulation.delta_kind import DELTA_TABLE
    from gapless.testing.simulation.draw import draw_scenario
    from gapless.testing.simulation.series import SERIES
    from gapless.testing.simulation.timeline import Timeline
    from gapless.testing.store.contract import StoreContract
    from gapless.testing.store.stores import DictStore, Faults, OuterStore, SimStore

__all__ = [
    "DELTA_TABLE", "SERIES", "DictStore", "Faults", "OuterStore", "SimStore", "SinkContract", "SourceContract", "StoreContract",
    "Timeline", "draw_scenario",
]  # fmt: skip

_HOME_OF = {
    "DELTA_TABLE": "simulation.delta_kind",
    "SERIES": "simulation.series",
    "DictStore": "store.stores",
    "Faults": "store.stores",
    "OuterStore": "store.stores",
    "SimStore": "store.stores",
    "SinkContract": "connect.sink_contract",
    "SourceContract": "connect.source_contract",
    "StoreContract": "store.contract",
    "Timeline": "simulation.timeline",
    "draw_scenario": "simulation.draw",
}


def __getattr__(name: str) -> object:
    """Bring a public name in (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gapless.testing' has no attribute {name!r}")
    return getattr(import_module(f"gapless.testing.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
