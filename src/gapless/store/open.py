"""From what a user types to a store."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gapless.model.protocols import Store
from gapless.store.local import LocalStore
from gapless.store.location import parse_location
from gapless.store.memory import MemoryStore
from gapless.store.object import ObjectStore
from gapless.store.options import refuse_options


def open_store(location: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """The store at a path or URL; touches neither disk nor network beyond resolving a local path.

    A path is a text or `pathlib.Path`: relative ones are resolved now, `~` is the home directory, any other character is
    literal. URLs: `file://` (percent-decoded), `memory://name`, `s3://`, `s3a://`, `gs://`, `az://`, `abfss://` with all
    after the bucket as a literal key. `storage_options` go by obstore's names and only with a bucket.
    Raises InvalidPath and InvalidOption.
    """
    place = parse_location(location)
    if place.kind == "local":
        refuse_options(storage_options, place.url)
        return LocalStore(place.path)
    if place.kind == "memory":
        refuse_options(storage_options, place.url)
        return MemoryStore(place.path)
    return ObjectStore(place, storage_options)


def table_name(location: str | os.PathLike[str]) -> str:
    """What the table at a path or URL is called: the last part of its path. Raises InvalidPath.

    >>> table_name("s3://bucket/market/prices/")
    'prices'
    """
    return parse_location(location).name
