"""Arrays whose buffers hold what their type forbids, as foreign code makes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl
from gapless.formats.timeseries.codec.json_values import seal
from gapless.formats.timeseries.format import TIME_SERIES
from support.hand_made import Hand, lay

LATIN = "café!".encode("latin-1")
"""Text that is not UTF-8."""
_RAW = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}


def texts(values: Sequence[bytes | None], type_: pa.DataType | None = None) -> pa.Array:
    """Bytes as text, whatever they are."""
    kind = type_ or pa.string()
    return pa.array(values, _RAW[kind]).view(kind)


def decimals(unscaled: Sequence[int | None], type_: pa.DataType) -> pa.Array:
    """Numbers counted in the last digit of a decimal type, whatever room that has."""
    raw = b"".join((0 if one is None else one).to_bytes(type_.byte_width, "little", signed=True) for one in unscaled)
    valid = np.packbits([one is not None for one in unscaled], bitorder="little").tobytes()
    return pa.Array.from_buffers(type_, len(unscaled), [pa.py_buffer(valid), pa.py_buffer(raw)])


def series_holding(root: Path, fine: pa.Table, rows: pa.Table) -> gl.TimeSeriesTable:
    """A time series by `ts` whose second version is a file of another writer: `rows`, of which it left no checksum. `fine` has its keys."""
    table = gl.create(root, index="ts", bucket="1h", properties={"checkpoint_interval": 0})
    table.append(fine)
    log = root / TIME_SERIES.path_of(2)
    envelope = json.loads(log.read_text())
    del envelope["checksum"]
    (segment,) = (action["AddSegment"] for action in envelope["actions"] if "AddSegment" in action)
    pq.write_table(rows, root / segment["path"])
    for told in ("checksum", "footer_checksum", "file_size", "stats", "sorted_by"):
        segment.pop(told, None)
    log.write_bytes(seal(json.dumps(envelope, separators=(",", ":")).encode()))
    return gl.open(root)


def delta_holding(root: Path, columns: Sequence[dict[str, Any]], rows: pa.Table, **options: Any) -> gl.delta.DeltaTable:
    """A Delta table whose one file is another writer's, who left no statistics."""
    lay(root, columns, [Hand(path="part-0.parquet", rows=rows, options=options)])
    return gl.delta.open(root)
