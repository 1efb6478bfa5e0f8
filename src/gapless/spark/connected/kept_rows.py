"""Rows of planned batches, kept beside the checkpoints of their query: a batch that comes again has the same rows, whatever its source
says by then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.store.open import open_store

_NAME = re.compile(r"(?P<stream>[^/]+)/(?P<number>\d+)-[^/]+\.arrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch:
    """The rows of one planned batch: a number of objects under one name."""

    stream: str
    """Of which stream of the source: each has a folder."""
    number: int
    """Batches of a stream are counted from 1."""
    tag: str
    """Tells it from another attempt at the same batch."""
    parts: int

    def path(self, part: int) -> str:
        """The object that holds a part."""
        return f"{self.stream}/{self.number:012}-{self.tag}-{part}.arrow"


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A folder or a place in a bucket that the driver and all executors reach."""

    url: str

    def put(self, batch: KeptBatch, parts: Sequence[pa.Table]) -> None:
        """Keep a batch, durably: each part is an object. Raises StoreError."""
        store = open_store(self.url)
        for number, part in enumerate(parts):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_table(part)
            store.put(batch.path(number), memoryview(sink.getvalue()))

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Raises ObjectNotFound where it is gone, StoreError."""
        yield from pa.ipc.open_stream(pa.py_buffer(open_store(self.url).get(path)))

    def forget(self, stream: str, number: int) -> None:
        """Remove the batches of a stream up to this one, and what attempts at them left. Raises StoreError."""
        store = open_store(self.url)
        gone = [
            one.path for one in store.list(stream) if (match := _NAME.fullmatch(one.path)) and int(match["number"]) <= number
        ]
        for path in gone:
            store.delete(path)
