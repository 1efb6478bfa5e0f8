"""Tables wherever they lie, as folders on disk that strangers to gapless read."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from gapless.store.open import open_store


def copied(place: str, storage: Mapping[str, str] | None, onto: Path) -> Path:
    """All objects of a place, as files of a folder made anew."""
    shutil.rmtree(onto, ignore_errors=True)
    store = open_store(place, storage)
    for info in store.list():
        path = onto / info.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(info.path))
    return onto
