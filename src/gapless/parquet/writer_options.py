"""How the values of a file are encoded, as its writers are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.parquet.column_chunk import Compression
from gapless.parquet.encodings import Encodings

_BARE = Compression(name="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How values are encoded."""

    compression: str
    compression_level: int | None
    encodings: Encodings
    least: int = 0
    """Chunks of fewer bytes are not compressed, where we make them."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Key-value metadata of the file."""

    def open(self, sink: pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
        """Arrow's writer of a file with the columns of `schema`, whose pages have checksums, and which says little of itself."""
        dictionary, others, names = self.encodings.dictionary, self.encodings.others, schema.names
        compression, level = self._by_column(names)
        return pq.ParquetWriter(
            sink,
            schema,
            compression=compression,
            compression_level=level,
            use_dictionary=dictionary if isinstance(dictionary, bool) else [n for n in dictionary if n in names],
            column_encoding={name: others[name] for name in others if name in names} or None,
            write_page_checksum=True,
            store_schema=False,
        )

    def compressions(self, names: Iterable[str]) -> dict[str, Compression]:
        """How columns are compressed that we write ourselves, by name."""
        usual = Compression(name=self.compression, level=self.compression_level, least=self.least)
        return {name: _BARE if name in self.encodings.bare else usual for name in names}

    def _by_column(self, names: list[str]) -> tuple[str | dict[str, str], int | dict[str, int] | None]:
        """Compression and level, by column where they differ."""
        bare, level = self.encodings.bare, self.compression_level
        if bare.isdisjoint(names):
            return self.compression, level
        compression = {name: "none" if name in bare else self.compression for name in names}
        return compression, None if level is None else {name: level for name in names if name not in bare}
