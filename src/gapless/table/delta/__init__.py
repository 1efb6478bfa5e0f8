"""Delta tables: `gl.delta`.

>>> import pyarrow as pa
>>> import gapless as gl
>>> table = gl.delta.create("memory://delta-readme", pa.schema({"id": pa.int64(), "day": pa.string()}), partition_by=["day"])
>>> table.version
0

Importing this loads nothing: each name below brings its module in when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.table.delta.alter import Alter
    from gapless.table.delta.history import DeltaHistoryEntry
    from gapless.table.delta.merge import Merge, MergeReport
    from gapless.table.delta.rows import DeltaRows, LiveFile
    from gapless.table.delta.table import DeltaTable, create, open  # noqa: A004  # gl.delta.open, as gzip.open
    from gapless.table.delta.view import DeltaView, open_at

__all__ = [
    "Alter",
    "DeltaHistoryEntry",
    "DeltaRows",
    "DeltaTable",
    "DeltaView",
    "LiveFile",
    "Merge",
    "MergeReport",
    "create",
    "open",
    "open_at",
]

_NAMES_OF = {
    "gapless.table.delta.alter": ("Alter",),
    "gapless.table.delta.history": ("DeltaHistoryEntry",),
    "gapless.table.delta.merge": ("Merge", "MergeReport"),
    "gapless.table.delta.rows": ("DeltaRows", "LiveFile"),
    "gapless.table.delta.table": ("DeltaTable", "create", "open"),
    "gapless.table.delta.view": ("DeltaView", "open_at"),
}
_HOME_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> object:
    """Bring a public name in (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gapless.table.delta' has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return thing


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
