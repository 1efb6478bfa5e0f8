"""Deletion vectors in a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gapless.dialects.delta.actions import DeletionVector
from gapless.dialects.delta.deletion_vector import (
    INLINE_BYTES,
    Positions,
    check_format,
    decode_entry,
    encode_bitmap,
    encode_file,
    inline_positions,
    inline_vector,
    vector_path,
)
from gapless.errors import CorruptTable
from gapless.parquet.delta.places import Places
from gapless.parquet.footer import LOST


def read_vector(places: Places, vector: DeletionVector) -> Positions:
    """The positions of the rows that a vector deletes, ascending. Raises CorruptTable where its file is missing or damaged, StoreError."""
    if vector.storage == "i":
        return inline_positions(vector)
    path = vector_path(vector)
    place = places.of(path)
    start = vector.offset or 0
    try:
        check_format(place.store.get(place.path, 0, 1), path)
        entry = place.store.get(place.path, start, vector.size + 8)
    except LOST as error:
        raise CorruptTable(
            f"deletion vector file {path} is missing",
            why="It says which rows of a data file are deleted, and nothing is stored there",
            fix="Bring the file back from a backup, or open an older version without it",
            path=path,
        ) from error
    return decode_entry(entry, vector, path)


def write_vectors(
    put: Callable[[str, bytes], None], uuid: Callable[[], str], deleted: Mapping[str, Positions]
) -> dict[str, DeletionVector]:
    """Store one vector for each key (an add's `path`, say) of `deleted`, whose positions ascend; the descriptors by the same keys.

    Small ones lie in the log itself; the others share one file, for which `put(path, data)` is called once (an attempt's `put`, so that a
    change that fails takes the file back) with a path relative to the table root. `uuid` gives a new UUID as text.
    """
    bitmaps = {key: encode_bitmap(positions) for key, positions in deleted.items()}
    large = {key: data for key, data in bitmaps.items() if len(data) > INLINE_BYTES}
    vectors = {key: inline_vector(positions) for key, positions in deleted.items() if key not in large}
    if large:
        data, told = encode_file(list(large.values()), uuid(), [len(deleted[key]) for key in large])
        put(vector_path(told[0]), data)
        vectors |= dict(zip(large, told, strict=True))
    return vectors
