"""Small files that Spark must find on disk, in the user's cache folder: each under a name that its content gives it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gapless.parquet.checksum import checksum


def cached_file(name: tuple[str, ...], text: str, *, executable: bool = False) -> Path:
    """A file of this text, made whole or not at all where it is not there yet; `name` are the last parts of its path.

    It lies in `$XDG_CACHE_HOME/gapless`, else `~/.cache/gapless`; where that cannot be written in a new folder of this process alone.
    """
    folder = checksum(memoryview(text.encode())).partition(":")[2]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapless"
    try:
        return _made(base.joinpath(folder, *name), text, executable=executable)
    except OSError:
        # A folder of a known name in a place that all may write to would let others put their own program there.
        return _made(Path(tempfile.mkdtemp(prefix="gapless-")).joinpath(*name), text, executable=executable)


def _made(path: Path, text: str, *, executable: bool) -> Path:
    if path.is_file() and path.read_text(encoding="utf-8") == text and (not executable or os.access(path, os.X_OK)):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).chmod(0o755 if executable else 0o644)
    Path(temporary).replace(path)
    return path
