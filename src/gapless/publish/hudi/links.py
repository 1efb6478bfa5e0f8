"""Files of a local disk under a second name, so that they can be read by it without a copy."""

from __future__ import annotations

import os
from pathlib import Path

from gapless.model.protocols import Store


def link(store: Store, path: str, name: str) -> bool:
    """Give a file another name, durably, unless that is there; False where the store or its file system has no links."""
    there, target = store.local_path(path), store.local_path(name)
    if there is None or target is None:
        return False
    folder = Path(target).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.link(there, target)
    except FileExistsError:
        return Path(target).stat().st_size == Path(there).stat().st_size
    except OSError:
        return False
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return True
