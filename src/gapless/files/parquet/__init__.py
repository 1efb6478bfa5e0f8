"""Parquet files by themselves, with what is known of each row group: `gl.parquet`.

>>> import pyarrow as pa
>>> import gapless as gl
>>> with gl.parquet.Writer("memory://zones/ages.parquet", pa.schema({"age": pa.int64()}), row_group_rows=2) as writer:
...     writer.write(pa.table({"age": [10, 20, 30, 40]}))
>>> [gl.parquet.can_skip("age >= 30", zone) for zone in writer.zones]
[True, False]
"""

from typing import TYPE_CHECKING

from gapless._names import names_of

if TYPE_CHECKING:
    from gapless.files.parquet.reading import read_zones
    from gapless.files.parquet.writer import Writer
    from gapless.files.parquet.zone import Zone, can_skip

__all__ = ["Writer", "Zone", "can_skip", "read_zones"]

_NAMES_OF = {
    "gapless.files.parquet.reading": ("read_zones",),
    "gapless.files.parquet.writer": ("Writer",),
    "gapless.files.parquet.zone": ("Zone", "can_skip"),
}
__getattr__ = names_of(__name__, _NAMES_OF, globals())
