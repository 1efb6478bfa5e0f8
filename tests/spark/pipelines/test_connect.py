"""Pipelines through a real server of Spark Connect: questions are answered, and sinks are refused by name before the first row."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from gapless.spark.setup.start import find_java

SOURCE = "CREATE SOURCE events (id BIGINT, ts TIMESTAMP) WITH (type='json', location='{root}/in');\n"
FILES = "CREATE SINK files WITH (type='parquet', location='{root}/files') AS SELECT id FROM events;\n"
AIR = "CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h') AS SELECT * FROM events;\n"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

# What Spark Connect needs is not among the locked packages; `pip install 'pyspark[connect]'` first.
pytestmark = [pytest.mark.soak, pytest.mark.skipif(find_spec("grpc") is None, reason="grpcio is not installed")]


def environment() -> dict[str, str]:
    path = os.pathsep.join(one for one in sys.path if one)
    return {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java(os.environ))}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[str]:
    """A server of Spark Connect on this machine."""
    spec = find_spec("pyspark")
    require(spec, "pyspark is not installed")
    assert spec is not None
    assert spec.origin is not None
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    words = [str(Path(spec.origin).parent / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    for name, value in (("address", "127.0.0.1"), ("port", str(port))):
        words += ["--conf", f"spark.connect.grpc.binding.{name}={value}"]
    log = tmp_path_factory.mktemp("connect") / "log"
    with log.open("wb") as said:
        running = subprocess.Popen(
            [*words, "--class", SERVER, "spark-internal"], env=environment(), stdout=said, stderr=said, start_new_session=True
        )
        try:
            end = time.monotonic() + 180
            while not _answers(port):
                assert running.poll() is None, log.read_text(errors="replace")[-2000:]
                assert time.monotonic() < end
                time.sleep(0.2)
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def test_sinks_are_refused_and_questions_answered(server: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"id": one, "ts": f"2026-01-05T0{one}:00:00Z"} for one in range(3)]
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    refused = _run(tmp_path, SOURCE + FILES + AIR, server)
    assert refused.returncode == 2, refused.stderr[-2000:]
    assert "Error [not-supported]: 'files' and 'air' cannot be filled through Spark Connect" in refused.stderr
    assert not (tmp_path / "air").exists()
    assert not (tmp_path / "files").exists()
    shown = _run(tmp_path, SOURCE + "SUBSCRIBE SELECT id FROM events ORDER BY id LIMIT 2;", server)
    assert (shown.returncode, "2 rows" in shown.stdout) == (0, True), shown.stderr[-2000:]


def _run(root: Path, sql: str, remote: str) -> subprocess.CompletedProcess[str]:
    (root / "a.sql").write_text(sql.format(root=root), encoding="utf-8")
    command = [sys.executable, "-m", "gapless", "run", str(root / "a.sql"), "--remote", remote]
    return subprocess.run(command, check=False, env=environment(), capture_output=True, text=True)


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
