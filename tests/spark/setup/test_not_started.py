"""What a user is told where Spark cannot start: a real Java that asks real servers of this machine, and what it said elsewhere."""

from __future__ import annotations

import http.server
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gapless.errors import SparkNotStarted
from gapless.spark.setup.not_started import explained, java_output
from gapless.spark.setup.start import find_java, session

PACKAGE = "org.example.gapless:nothing_2.13:1.0"
NO_WAY = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.nonProxyHosts=localhost"
"""A proxy that nobody is: nothing leaves this machine."""


@pytest.fixture
def untrusted(tmp_path: Path, require: Callable[[object, str], None]) -> Iterator[str]:
    """A repository whose certificate nobody knows."""
    require(shutil.which("openssl"), "openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *made], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://localhost:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_that_java_does_not_trust_is_told_with_the_remedy(
    untrusted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(find_java({"PATH": ""})))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", NO_WAY)
    options = {"spark.jars.packages": PACKAGE, "spark.jars.ivy": str(tmp_path / "ivy"), "spark.jars.repositories": untrusted}
    error = explained(java_output(options), (PACKAGE,), os.environ["JAVA_HOME"])
    assert f"does not trust {untrusted}, from which the packages {PACKAGE} come" in error.what
    assert os.environ["JAVA_HOME"] in error.what
    assert "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" in error.fix
    assert (error.packages, error.java) == ((PACKAGE,), os.environ["JAVA_HOME"])


def test_a_pipeline_whose_packages_cannot_be_fetched_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "gapless.toml").write_text(
        f'[pipelines.spark]\n"spark.jars.packages" = "{PACKAGE}"\n"spark.jars.ivy" = "{tmp_path / "ivy"}"\n', encoding="utf-8"
    )
    sql = "CREATE SOURCE s WITH (type='rate'); CREATE SINK k WITH (type='console') AS SELECT * FROM s;"
    (tmp_path / "a.sql").write_text(sql, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "JAVA_TOOL_OPTIONS": NO_WAY}
    environment["JAVA_HOME"] = str(find_java({"PATH": ""}))
    command = [sys.executable, "-m", "gapless", "run", "a.sql", "--master", "local[1]"]
    ended = subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    _, _, block = ended.stderr.partition("Error [")
    assert block.startswith("spark-not-started]: Spark did not start: the Java at ")
    assert f"cannot reach https://repo1.maven.org, from which the packages {PACKAGE} come" in block
    assert "Fix: Run it once with a network" in block
    assert "bug" not in block


@pytest.mark.parametrize("place", ["127.0.0.1:1", "127.0.0.1:1/;user_id=x", "no-such-host.invalid"])
def test_a_server_of_spark_connect_that_is_not_there_is_told_at_once(place: str) -> None:
    with pytest.raises(SparkNotStarted, match="no server of Spark Connect answers at sc://"):
        session(master=f"sc://{place}")


NOT_FOUND = """:: problems summary ::
:::: WARNINGS
	Host repos.spark-packages.org not found. url=https://repos.spark-packages.org/org/apache/spark/x_2.13/9.9.9/x_2.13-9.9.9.pom

		module not found: org.apache.spark#x_2.13;9.9.9
		:: org.apache.spark#x_2.13;9.9.9: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.apache.spark#x_2.13;9.9.9: not found]
"""
NO_NETWORK = NOT_FOUND.replace("repos.spark-packages.org", "repo1.maven.org")
NO_MEMORY = """Picked up JAVA_TOOL_OPTIONS: -Dx=y
Error occurred during initialization of VM
Could not reserve enough space for 104857600KB object heap
"""


@pytest.mark.parametrize(
    ("said", "packages", "what", "why"),
    [
        (NOT_FOUND, ("org.apache.spark:x_2.13:9.9.9",), "org.apache.spark:x_2.13:9.9.9 is not to be had", "Maven Central"),
        (NO_NETWORK, ("org.apache.spark:x_2.13:9.9.9",), "cannot reach https://repo1.maven.org", "no way to it from here"),
        (NO_MEMORY, (), "ended at once", "Error occurred during initialization of VM Could not reserve"),
        (
            'Exception in thread "main" java.lang.IllegalArgumentException: no such size\n\tat x',
            (),
            "ended at once",
            "no such size",
        ),
        ("", (), "ended at once", "It said nothing"),
    ],
)
def test_what_java_said_becomes_a_reason(said: str, packages: tuple[str, ...], what: str, why: str) -> None:
    error = explained(said, packages, "/usr/lib/jvm/x")
    assert what in error.what
    assert why in error.why
    assert error.fix
