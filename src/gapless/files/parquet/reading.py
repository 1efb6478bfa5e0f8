"""Zone maps of Parquet files that are there, by their footers."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import UnreadableInput
from gapless.files.pages.footer import Footer
from gapless.files.parquet.zone import Zone
from gapless.files.read.source import open_object
from gapless.store.open import open_file_store


def read_zones(path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> tuple[Zone, ...]:
    """What a Parquet file's footer says of each row group, whoever wrote the file; nothing else of it is read.

    Args:
        path: The file, by its path or URL.
        storage_options: As a table's.

    Fields of structs are not told of, and of floats not whether NaN is among them. Raises ObjectNotFound, UnreadableInput, InvalidPath,
    InvalidOption, StoreError.
    """
    store, name = open_file_store(path, storage_options)
    size = store.head(name).size
    try:
        with open_object(store, name, size) as source:
            footer = Footer.of(pq.read_metadata(source))
    except (pa.ArrowException, OSError) as error:
        raise UnreadableInput(
            f"{os.fspath(path)} cannot be read as Parquet: {str(error).partition(chr(10))[0]}",
            why="Its footer is no footer of a Parquet file",
            fix="Check the path, and whether the file was written whole",
            source=os.fspath(path),
        ) from error
    named = footer.groups.each(footer.schema)
    return tuple(
        Zone(
            schema=footer.schema,
            rows=rows,
            columns={(one,): known for one in footer.schema.names if (known := stats(one)) is not None},
        )
        for rows, stats in zip(footer.groups.rows, named, strict=True)
    )
