"""The floor of whoever keeps its word through a power cut: a Parquet file and one more small file an append, both synced."""

from __future__ import annotations

import os
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from peers.arrow import Arrow


class ArrowSynced(Arrow):
    only: ClassVar[frozenset[str]] = frozenset({"bulk", "forty", "tiny", "writers"})
    durability = "both files of an append are synced (not their folder); nobody coordinates writers"

    def append(self, rows: pa.Table) -> None:
        self.number += 1
        path = self._next()
        with path.open("wb") as file:
            pq.write_table(rows, file, compression="zstd", compression_level=1)
            os.fsync(file.fileno())
        with path.with_name(f".{path.stem}.json").open("wb") as file:
            file.write(b"{}" * 300)
            os.fsync(file.fileno())


CONTENDER = ArrowSynced
