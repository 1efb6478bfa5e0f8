"""Jars from Maven Central by the Ivy that PySpark brings, for what is no package of a session."""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_FETCHED_WITHIN_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """What Maven calls an artifact."""

    group: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Module:
        """From "group:name:version"."""
        group, name, version = text.strip().split(":")[:3]
        return cls(group=group, name=name, version=version)

    @property
    def session_jar(self) -> str:
        """The file in the folder `jars` of `spark.jars.ivy`, once a session has brought it."""
        return f"{self.group}_{self.name}-{self.version}.jar"


def fetch_jars(java: Path, module: Module, folder: Path, *, cache: Path | None = None, alone: bool = False) -> str:
    """Fetch an artifact's jars, with all that they need, into a folder, which is made; what Ivy said where they are not there then, else "".

    `java` is the program. `cache` is Ivy's own folder, one for this call where not given. With `alone` only the artifact's own jar is fetched.
    """
    found = importlib.util.find_spec("pyspark")
    ivy = None if found is None or found.origin is None else next((Path(found.origin).parent / "jars").glob("ivy-*.jar"), None)
    if ivy is None:
        return "pyspark is not installed, whose Ivy fetches jars"
    with tempfile.TemporaryDirectory(prefix="gapless-") as scratch:
        command = [
            str(java),
            f"-Divy.default.ivy.user.dir={scratch if cache is None else cache}",
            "-cp",
            str(ivy),
            "org.apache.ivy.Main",
            *("-confs", "default"),
            *("-dependency", module.group, module.name, module.version),
            *(("-notransitive",) if alone else ()),
            *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
        ]
        try:
            ended = subprocess.run(  # noqa: S603  # the Java that was chosen for Spark
                command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCHED_WITHIN_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    is_there = (folder / f"{module.name}-{module.version}.jar").is_file()
    return "" if is_there else f"{ended.stdout}\n{ended.stderr}"
