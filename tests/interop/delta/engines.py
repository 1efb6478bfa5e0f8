"""Other engines that read and write Delta tables, or read Hudi tables, each in a process and environment of its own (`make interop`)."""

from __future__ import annotations

import fcntl
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.spark.setup.start import find_java
from interop.delta.there.serve import receive, send

ROOT = Path(__file__).resolve().parents[3]
THERE = Path(__file__).resolve().parent / "there"
HOMES = ROOT / "build" / "interop"
RELEASES = ("1.6.6", "1.6.3", "1.3.3", "0.25.5")
"""Of deltalake, the newest (in the developers' environment) first."""
READERS = (*(f"deltalake-{release}" for release in RELEASES), "duckdb-1.5.5", "polars")
"""All but Spark, which takes its time."""


HUDI, HUDI_SPARK = "hudi-0.5.0", "hudi_spark-1.2.0"
"""Readers of Hudi: hudi-rs, and Hudi's own on Spark 3.5."""
SPARKS = ("spark", HUDI_SPARK)
"""Engines whose jars come by Ivy."""

Ask = Callable[[str], "Engine"]
"""The fixture `engine`: the running process of one, by its name."""


class EngineError(Exception):
    """What an engine raised: the name of its error and what it says."""


class Engine:
    """One process of another library; `do` asks it for one of the functions of its module in `there`."""

    def __init__(self, name: str) -> None:
        """Start it: one of READERS, of those of Hudi, or `spark`. Use `installed` first."""
        self.name = name
        kind = f"{name.partition('-')[0]}_there"
        environment = {**os.environ, "SPARK_IVY": str(HOMES / "ivy"), "PYTHONPATH": str(ROOT / "src"), "TZ": "UTC"}
        if name in SPARKS:
            environment["SPARK_WAREHOUSE"] = str(ROOT / "build" / "warehouse")
        if name == HUDI_SPARK:
            environment["JAVA_HOME"] = str(find_java(os.environ))
        with _log_of(name).open("wb") as log:
            self._process = subprocess.Popen(
                [str(_python(name)), str(THERE / "serve.py"), kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )

    def starts(self) -> bool:
        """Wait until Spark has its jars, one process at a time: Ivy's folder is shared. False where they cannot be had."""
        with (HOMES / "ivy.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self.do("version")
            except EngineError:
                if "unresolved dependency" in _log_of(self.name).read_text():
                    return False
                raise
        return True

    def do(self, what: str, rows: pa.Table | None = None, **named: Any) -> Any:
        """The answer of its function `what`: JSON, or a table. Raises EngineError for what it raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        send(self._process.stdin, {"do": what, **named}, rows)
        message = receive(self._process.stdout)
        if message is None:
            raise EngineError(f"{self.name} died; see {_log_of(self.name)}")
        told, table = message
        if "error" in told:
            raise EngineError(f"{self.name} could not {what} {named}: {told['error']}")
        return told.get("value") if table is None else table

    def read(self, path: str | Path, **named: Any) -> pa.Table:
        """The rows of a table, `at` a version, or `where` a condition holds."""
        return self.do("read", path=str(path), **named)

    def close(self) -> None:
        """End its process; what it said stays only where it died of something."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        if self._process.returncode == 0:
            _log_of(self.name).unlink(missing_ok=True)


def installed(name: str) -> bool:
    """Whether its environment is there."""
    return _python(name).exists()


def _python(name: str) -> Path:
    own = name in {"spark", "polars", f"deltalake-{RELEASES[0]}"}
    return Path(sys.executable) if own else HOMES / name / "bin" / "python"


def _log_of(name: str) -> Path:
    folder = ROOT / "build" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.{os.getpid()}.log"


def counted(table: pa.Table | Iterable[dict[str, Any]], columns: Iterable[str] | None = None) -> Counter[str]:
    """The rows as a multiset of texts, that two libraries' tables can be compared by: by column names in order, exact in all values."""
    rows = table.to_pylist() if isinstance(table, pa.Table) else list(table)
    names = None if columns is None else list(columns)
    return Counter(repr(sorted((n, _plain(v)) for n, v in row.items() if names is None or n in names)) for row in rows)


def _plain(value: Any) -> Any:
    """A value that does not tell which library it came from."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return sorted((name, _plain(inner)) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "utcoffset") and value.utcoffset() is not None:
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
    return value
