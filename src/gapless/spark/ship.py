"""gapless itself for the workers of a cluster that do not have it, out of this process."""

from __future__ import annotations

import atexit
import marshal
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import MAGIC_NUMBER, source_hash
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("gapless", "pyspark_gapless")
"""What workers import."""
_MADE = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip file can hold: nothing asks when its files were made."""
_BY_HASH = (1).to_bytes(4, "little")
"""The mark of compiled code that is taken without a look at its source."""


def ship(spark: SparkSession) -> None:
    """Bring this process's gapless to all workers of a session, now and later: they need no gapless of their own, and this one comes first.

    Args:
        spark: A session on a cluster, or of Spark Connect, where its server too is given it; before its first job with gapless.

    Its dependencies (pyarrow, numpy, obstore, pyroaring, xxhash, …) are not brought: they hold programs for one kind of machine. Does the
    same as `spark-submit --py-files` with the file that `archive` makes; called again it changes nothing. Raises as `spark.addArtifacts`.
    """
    spark.addArtifacts(str(_file()), pyfile=True)


@cache
def archive() -> bytes:
    """A zip file of this gapless, to be put on a path of Python as it is; the same all the time that this process lives.

    It holds the Python files, and each compiled for this version of Python: nothing keeps what a worker compiles out of a zip file, so
    each would do it again.
    """
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for package in PACKAGES:
            for name, source in sorted(_sources(files(package), package)):
                file.writestr(zipfile.ZipInfo(name, _MADE), source, zipfile.ZIP_DEFLATED)
                file.writestr(zipfile.ZipInfo(f"{name}c", _MADE), _compiled(name, source), zipfile.ZIP_DEFLATED)
    return held.getvalue()


@cache
def _file() -> Path:
    """The archive on disk until this process ends: Spark fetches it from there for each executor that comes."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "gapless.zip"
    path.write_bytes(archive())
    return path


def _compiled(name: str, source: bytes) -> bytes:
    code = compile(source, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + _BY_HASH + source_hash(source) + marshal.dumps(code)


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        path = f"{name}/{one.name}"
        if one.is_dir():
            yield from _sources(one, path)
        elif one.name.endswith(".py"):
            yield path, one.read_bytes()
