"""Names in a folder of a table, where sizes and times are not asked for: of a large one these take 40 times as long."""

from __future__ import annotations

import os
from contextlib import suppress

from gapless.formats.hudi.names import METADATA_FOLDER
from gapless.model.protocols import Store
from gapless.store.local.file_system import typed_os_errors


def data_file_names(store: Store, folder: str) -> list[str]:
    """The Parquet files right in the base path `folder`. Raises StoreError."""
    if (place := store.local_path(folder)) is not None:
        with typed_os_errors("listing", folder, store.url), suppress(FileNotFoundError):
            return [name for name in os.listdir(place) if name.endswith(".parquet")]  # noqa: PTH208
        return []
    # What lies in the metadata folder comes before this.
    listed = store.list(folder, f"{folder}/{METADATA_FOLDER}0")
    names = (info.path.removeprefix(f"{folder}/") for info in listed)
    return [name for name in names if "/" not in name and name.endswith(".parquet")]


def object_names(store: Store, folder: str) -> list[str]:
    """All objects below a folder, relative to it; of a local one each folder in it as one name, if anything lies there. Raises StoreError."""
    if (place := store.local_path(folder)) is not None:
        with typed_os_errors("listing", folder, store.url), suppress(FileNotFoundError), os.scandir(place) as found:
            return [f"{one.name}/" if _holds_objects(store, folder, one) else one.name for one in found]
        return []
    return [info.path.removeprefix(f"{folder}/") for info in store.list(folder)]


def _holds_objects(store: Store, folder: str, entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder with more than empty folders, and files that no store has (Hadoop's checksums), in it."""
    return entry.is_dir() and next(store.list(f"{folder}/{entry.name}"), None) is not None
