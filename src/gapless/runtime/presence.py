"""Whether the files of a change that took long are still there, asked right before its commit."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.errors import CommitConflict, ObjectNotFound
from gapless.log.dialect import Placed
from gapless.model.horizon import is_old
from gapless.runtime.driver import Rim


def require_files(rim: Rim, placed: Iterable[Placed], version: int) -> None:
    """Raise CommitConflict where a file that a commit makes live was written long ago and is no longer there.

    Long is half the writer horizon: until then nothing removes what a writer at work has written. `version` is the newest
    that the writer knows. Raises StoreError.
    """
    now_ns = rim.clock.now_ns()
    for file in placed:
        if file.instant_ns is None or is_old(now_ns, file.instant_ns):
            require_file(rim, file.path, version)


def require_file(rim: Rim, path: str, version: int) -> None:
    """Raise CommitConflict where a file that a change wrote or needs is gone; `version` as in `require_files`. Raises StoreError."""
    try:
        rim.store.head(path)
    except ObjectNotFound as error:
        raise CommitConflict(
            f"{path} is gone, which this change wrote or needs",
            why="It was not committed for half a day or longer, or was removed since, and vacuum or someone else deleted it; "
            "nothing was committed",
            fix="Make the change again from its data",
            version=version,
            reason="files are gone",
        ) from error
