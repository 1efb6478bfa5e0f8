"""Delta tables: `gl.delta`.

>>> import pyarrow as pa
>>> import gapless as gl
>>> table = gl.delta.create("memory://delta-readme", pa.schema({"id": pa.int64(), "day": pa.string()}), partition_by=["day"])
>>> table.version
0

Importing this loads nothing: each name below brings its module in when it is first used.
"""

from typing import TYPE_CHECKING

from gapless._names import names_of

if TYPE_CHECKING:
    from gapless.formats.delta.variant.decode import decode_variant
    from gapless.formats.delta.variant.encode import encode_variant
    from gapless.formats.delta.variant.shred import shred_variant
    from gapless.tables.delta.alter.alter import Alter
    from gapless.tables.delta.care.compact_plan import DeltaCompactionPlan
    from gapless.tables.delta.merge.merge import Merge, MergeReport
    from gapless.tables.delta.read.rows import DeltaRows, LiveFile
    from gapless.tables.delta.read.versions import DeltaHistoryEntry
    from gapless.tables.delta.read.view import DeltaView, open_at
    from gapless.tables.delta.table import DeltaTable, create, open  # noqa: A004  # gl.delta.open, as gzip.open

__all__ = [
    "Alter",
    "DeltaCompactionPlan",
    "DeltaHistoryEntry",
    "DeltaRows",
    "DeltaTable",
    "DeltaView",
    "LiveFile",
    "Merge",
    "MergeReport",
    "create",
    "decode_variant",
    "encode_variant",
    "open",
    "open_at",
    "shred_variant",
]

_NAMES_OF = {
    "gapless.formats.delta.variant.decode": ("decode_variant",),
    "gapless.formats.delta.variant.encode": ("encode_variant",),
    "gapless.formats.delta.variant.shred": ("shred_variant",),
    "gapless.tables.delta.alter.alter": ("Alter",),
    "gapless.tables.delta.care.compact_plan": ("DeltaCompactionPlan",),
    "gapless.tables.delta.read.versions": ("DeltaHistoryEntry",),
    "gapless.tables.delta.merge.merge": ("Merge", "MergeReport"),
    "gapless.tables.delta.read.rows": ("DeltaRows", "LiveFile"),
    "gapless.tables.delta.table": ("DeltaTable", "create", "open"),
    "gapless.tables.delta.read.view": ("DeltaView", "open_at"),
}
__getattr__ = names_of(__name__, _NAMES_OF, globals())


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
