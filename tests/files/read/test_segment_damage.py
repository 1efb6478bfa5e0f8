"""Damage that no checksum covers: the headers of Parquet pages."""

from __future__ import annotations

import io
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.errors import CorruptTable
from gapless.files.pages.footer import footer_checksum
from gapless.files.read.source import open_segment, read_group
from gapless.model.segment import Bounds, Segment
from gapless.store.memory import MemoryStore

ROWS = 60


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_page_that_is_passed_over_is_an_error_and_not_fewer_rows(dictionary: bool) -> None:
    table = pa.table({"n": [row // 7 for row in range(ROWS)]})
    sink = io.BytesIO()
    pq.write_table(table, sink, write_page_checksum=True, data_page_size=64, write_batch_size=16, use_dictionary=dictionary)
    whole = sink.getvalue()
    footer = footer_checksum(memoryview(whole))
    segment = Segment(
        path="a", rows=ROWS, size=len(whole), bounds=Bounds(first=0, last=8), coverage=None, footer_checksum=footer
    )
    store = MemoryStore(str(uuid.uuid4()))
    short = 0
    for at in range(len(whole) - int(footer.split(":")[1])):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            store.put("a", bytes(damaged), mode="overwrite")
            try:
                with open_segment(store, segment) as file:
                    found = read_group(file, segment, 0, ["n"])
            except CorruptTable as error:
                short += "rows and not 60" in error.what
                continue
            assert found.equals(table), (at, bit)
    assert short > 0  # pyarrow alone gives such a column back, shorter than it was
