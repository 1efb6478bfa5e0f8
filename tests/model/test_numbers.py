"""Numbers between Arrow and numpy are those that Arrow's own ways give; and an append imports no pandas for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gapless.model.stats import arrow_of, numbers_of
from support.releases import needs_pyarrow

KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 9])
def test_they_are_what_arrow_makes_of_them(kind: str, count: int) -> None:
    numbers = (np.arange(20) * 7 - 3).astype(kind)[1 : 1 + 2 * count : 2]
    made = arrow_of(numbers)
    made.validate(full=True)
    assert made.equals(pa.array(numbers))
    assert made.type == pa.array(numbers).type
    assert made.null_count == 0
    for array in (made, made.slice(1), pa.concat_arrays([made, made]).slice(count, count), pa.array(numbers)):
        back = numbers_of(array)
        assert back.dtype == numbers.dtype
        assert back.tolist() == array.to_pylist()


def test_bits_and_memory_stay() -> None:
    odd = np.array([0x7FF8000000000001, 0x8000000000000000, 0xFFF0000000000003], np.uint64).view(np.float64)
    made = arrow_of(odd)
    assert numbers_of(made).view(np.uint64).tolist() == odd.view(np.uint64).tolist()
    assert made.buffers()[1].address == odd.ctypes.data
    odd.flags.writeable = False
    assert len(arrow_of(odd)) == 3


APPENDS = """
import sys
import numpy as np, pyarrow as pa
import gapless as gl

KINDS = {"timestamp": pa.timestamp("us", "UTC"), "int64": pa.int64(), "uint64": pa.uint64()}
kind = sys.argv[2]

def rows(first, count):
    at = np.arange(first, first + count)
    moments = pa.Array.from_buffers(KINDS[kind], count, [None, pa.py_buffer(at // 3 * 60_000_000)])
    prices = pa.Array.from_buffers(pa.float64(), count, [None, pa.py_buffer(np.round(np.sqrt(at), 2))])
    names = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(np.arange(count + 1, dtype=np.int32)), pa.py_buffer(b"cab" * (count // 3))])
    edges = np.arange(count + 1, dtype=np.int32) * 6
    notes = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(edges), pa.py_buffer(b"".join(b"%06d" % one for one in at))])
    return pa.Table.from_arrays([moments, names, prices, notes], names=["ts", "symbol", "price", "note"])

for codec in ("fastest", "balanced", "smallest"):
    bucket = "1m" if kind == "timestamp" else 60_000_000
    table = gl.create(sys.argv[1] + codec, index="ts", index_type=kind, entity=["symbol"], bucket=bucket, properties={"codec": codec})
    first = 0
    for count in (3, 90, 6_000, 60_000, 300_000):
        table.append(rows(first, count))
        first += count
    halves = rows(first, 30_000)
    table.append(pa.concat_tables([halves.slice(0, 10_000), halves.slice(10_000)]))
    assert "pandas" not in sys.modules, codec
pa.array([1])
assert "pandas" in sys.modules, "it can be told apart"
"""


@needs_pyarrow(26, "imports pandas to name a dtype")
@pytest.mark.parametrize("index", ["timestamp", "int64", "uint64"])
def test_an_append_imports_no_pandas(tmp_path: Path, index: str) -> None:
    done = subprocess.run([sys.executable, "-c", APPENDS, f"{tmp_path}/", index], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
