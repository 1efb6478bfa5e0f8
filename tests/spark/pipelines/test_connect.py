"""Pipelines through a real server of Spark Connect: sinks of all kinds are filled, each row once, whoever is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

import gapless as gl
from gapless.spark.setup.start import find_java
from spark.cluster.nodes import bare_python
from support import hudi_targets

SOURCE = "CREATE SOURCE events (id BIGINT, ts TIMESTAMP, site STRING) WITH (type='json', location='{root}/in');\n"
ALL = """
CREATE VIEW even AS SELECT * FROM events WHERE id % 2 = 0;
CREATE LOOKUP TABLE sites (site STRING, name STRING, PRIMARY KEY (site)) WITH (type='json', location='{root}/sites', ttl='1 hour');
CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', entity='site', bucket='1h') AS SELECT * FROM events;
CREATE SINK named WITH (type='delta', location='{root}/named') AS SELECT even.*, s.name FROM even LEFT JOIN sites s ON s.site = even.site;
CREATE SINK berg WITH (
  type='iceberg', catalog_type='sql', catalog_uri='sqlite:///{root}/catalog.db', warehouse='{root}/wh', namespace='n', table_name='t'
) AS SELECT * FROM even;
CREATE SINK hoodie WITH (type='hudi', location='{root}/hoodie', key='id') AS SELECT * FROM even;
CREATE SINK counts WITH (type='delta', location='{root}/counts', mode='complete') AS SELECT site, count(*) AS n FROM events GROUP BY site;
CREATE SINK files WITH (type='parquet', location='{root}/files') AS SELECT id FROM events;
"""
AIR = "CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h') AS SELECT * FROM events;\n"
ELSEWHERE = """
import sys
import gapless as gl
from gapless.pipelines.run.spark_connect import check_server
check_server(gl.spark.session(master=sys.argv[1]), [], "/nowhere/run.json")
"""
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[str]:
    require(find_spec("pyspark"), "pyspark is not installed")
    require(find_spec("grpc"), "what Spark Connect needs is not installed: pip install 'pyspark[connect]'")
    with serving(tmp_path_factory.mktemp("connect"), environment()) as (url, _):
        yield url


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(one for one in sys.path if one)
    return {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java(os.environ)), **more}


@contextmanager
def serving(folder: Path, environment: dict[str, str]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of Spark Connect on this machine: its URL and its process."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    words = [str(Path(spec.origin).parent / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    options = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    for name, value in {**options, "spark.sql.shuffle.partitions": "2"}.items():
        words += ["--conf", f"{name}={value}"]
    log = folder / "log"
    with log.open("wb") as said:
        running = subprocess.Popen(
            [*words, "--class", SERVER, "spark-internal"], env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            end = time.monotonic() + 180
            while not _answers(port):
                assert running.poll() is None, log.read_text(errors="replace")[-2000:]
                assert time.monotonic() < end
                time.sleep(0.2)
            yield f"sc://127.0.0.1:{port}", running
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def test_all_sinks_are_filled_and_questions_answered(server: str, tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    _write(tmp_path / "sites" / "a.json", [{"site": one, "name": one.upper()} for one in "ab"])
    _day(tmp_path, 5, 0)
    _ended(_run(tmp_path, SOURCE + ALL, server))
    _day(tmp_path, 6, 20)
    _ended(_run(tmp_path, SOURCE + ALL, server))
    said = _ended(_run(tmp_path, SOURCE + ALL, server))
    assert re.findall(r"^(\w+): nothing new$", said, re.MULTILINE) == ["air", "named", "berg", "hoodie", "counts", "files"]

    assert sorted(_ids(gl.open(tmp_path / "air").scan().to_arrow())) == list(range(40))
    named = DeltaTable(str(tmp_path / "named")).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in named) == list(range(0, 40, 2))
    assert {(row["site"], row["name"]) for row in named} == {("a", "A"), ("b", "B"), ("c", None)}
    counts = DeltaTable(str(tmp_path / "counts")).to_pyarrow_table().to_pylist()
    assert sorted((row["site"], row["n"]) for row in counts) == [("a", 14), ("b", 14), ("c", 12)]
    counted = duckdb.execute(f"SELECT count(*), count(DISTINCT id) FROM '{tmp_path}/files/*.parquet'")
    assert counted.fetchall() == [(40, 40)]
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/wh")
    assert sorted(_ids(catalog.load_table("n.t").scan().to_arrow())) == list(range(0, 40, 2))
    catalog.close()
    assert sorted(row["id"] for row in hudi_targets.rows(tmp_path / "hoodie")) == list(range(0, 40, 2))

    shown = _ended(_run(tmp_path, SOURCE + "SUBSCRIBE SELECT id FROM events ORDER BY id LIMIT 2;", server))
    assert "2 rows" in shown


def test_a_client_that_was_killed_is_gone_on_with(server: str, tmp_path: Path) -> None:
    _day(tmp_path, 5, 0)
    running = _started(tmp_path, SOURCE + AIR, server, "--continuous")
    try:
        _until(lambda: _rows(tmp_path) == 20, running)
    finally:
        running.kill()
        running.communicate()
    _day(tmp_path, 6, 20)
    _ended(_run(tmp_path, SOURCE + AIR, server))
    assert sorted(_ids(gl.open(tmp_path / "air").scan().to_arrow())) == list(range(40))


def test_what_a_sink_refuses_is_told(server: str, tmp_path: Path) -> None:
    _write(tmp_path / "in" / "a.json", [{"id": 1, "site": "a"}])
    ended = _run(tmp_path, SOURCE + AIR, server)
    assert ended.returncode == 1, ended.stderr[-2000:]
    assert "Error [pipeline-failed]: the pipeline 'a' stopped while it filled 'air'" in ended.stderr
    assert "ts" in ended.stderr.partition("Why: ")[2].partition("\n")[0]
    assert "Traceback" not in ended.stderr


def test_what_the_server_cannot_do_is_refused_before_the_first_row(server: str, tmp_path: Path) -> None:
    _day(tmp_path, 5, 0)
    shows = "CREATE SINK shown WITH (type='console') AS SELECT * FROM events;\n"
    refused = _run(tmp_path, SOURCE + AIR + shows, server)
    assert refused.returncode == 2, refused.stderr[-2000:]
    assert "Error [not-supported]: the sink 'shown' cannot show its rows through Spark Connect" in refused.stderr
    assert not (tmp_path / "air").exists()
    # A server that has another disk. In a process of its own: the client of Spark Connect changes the environment of this one.
    asked = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, server], check=False, env=environment(), capture_output=True, text=True
    )
    assert "NotSupported: the server of Spark Connect cannot read /nowhere/run.json" in asked.stderr, asked.stderr[-2000:]


@pytest.mark.soak
def test_a_server_without_gapless_is_refused(tmp_path: Path) -> None:
    _day(tmp_path, 5, 0)
    python = str(bare_python(tmp_path / "python"))
    without = environment(PYTHONPATH="", PYSPARK_PYTHON=python, PYSPARK_DRIVER_PYTHON=python)
    with serving(tmp_path, without) as (url, _):
        refused = _run(tmp_path, SOURCE + AIR, url)
    assert "Error [not-supported]: the server of Spark Connect has no gapless" in refused.stderr, refused.stderr[-2000:]
    assert not (tmp_path / "air").exists()


@pytest.mark.soak
def test_a_server_that_was_killed_is_told_and_the_next_one_goes_on(tmp_path: Path) -> None:
    _day(tmp_path, 5, 0)
    with serving(tmp_path, environment()) as (url, process):
        running = _started(tmp_path, SOURCE + AIR, url, "--continuous")
        _until(lambda: _rows(tmp_path) == 20, running)
        os.killpg(process.pid, signal.SIGKILL)
        _, said = running.communicate(timeout=400)
        assert running.returncode == 1, said[-2000:]
        assert "Why: The server of Spark Connect answers no more: " in said
    _day(tmp_path, 6, 20)
    with serving(tmp_path, environment()) as (url, _):
        _ended(_run(tmp_path, SOURCE + AIR, url))
    assert sorted(_ids(gl.open(tmp_path / "air").scan().to_arrow())) == list(range(40))


def _day(root: Path, day: int, first: int) -> None:
    rows = [{"id": first + one, "ts": f"2026-01-{day:02}T{one:02}:00:00Z", "site": "abc"[one % 3]} for one in range(20)]
    _write(root / "in" / f"{day}.json", rows)


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(exist_ok=True)
    made = path.with_name(f".{path.name}")
    made.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made.rename(path)


def _ids(rows: pa.Table) -> list[int]:
    return [int(one) for one in rows["id"].to_pylist()]


def _rows(root: Path) -> int:
    try:
        return int(gl.open(root / "air").scan().to_arrow().num_rows)
    except gl.errors.TableNotFound:
        return 0


def _until(holds: Callable[[], bool], running: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def _started(root: Path, sql: str, remote: str, *words: str) -> subprocess.Popen[str]:
    (root / "a.sql").write_text(sql.format(root=root), encoding="utf-8")
    command = [sys.executable, "-m", "gapless", "run", str(root / "a.sql"), "--remote", remote, *words]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _run(root: Path, sql: str, remote: str) -> subprocess.CompletedProcess[str]:
    running = _started(root, sql, remote)
    out, err = running.communicate()
    return subprocess.CompletedProcess(running.args, running.returncode, out, err)


def _ended(run: subprocess.CompletedProcess[str]) -> str:
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
