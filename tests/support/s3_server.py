"""An S3 server on this machine for the tests that want one: fixtures `s3_server` and `s3_options`.

`ministack` answers put-if-absent right under a race, and is a Glue catalog too. It is started once a session (and xdist worker), on a free port.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BUCKET = "gapless-tests"
_START_LIMIT_S = 60
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[str]:
    """The endpoint of a running S3 server that has an empty bucket `gapless-tests`, such as "http://127.0.0.1:4567"."""
    require(importlib.util.find_spec("ministack"), "ministack is not installed: no S3 server to test against")
    place = tmp_path_factory.mktemp("s3_server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    with _process(place, port) as server:
        try:
            _await(endpoint, server, place / "log")
            _DIRECT.open(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=10).close()
            yield endpoint
        finally:
            server.kill()


@pytest.fixture
def s3_options(s3_server: str) -> tuple[str, dict[str, str]]:
    """(URL of an empty place for this test, without a slash at its end, storage options for it)."""
    options = {
        "endpoint": s3_server,
        "allow_http": "true",
        "region": "us-east-1",
        "access_key_id": "test",
        "secret_access_key": "test",
    }
    return f"s3://{BUCKET}/{uuid.uuid4().hex}", options


def _process(place: Path, port: int) -> subprocess.Popen[bytes]:
    # Only what we use: the other services open ports of their own.
    settings = {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "SERVICES": "s3,glue",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
    }
    with (place / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ministack"], cwd=place, env={**os.environ, **settings}, stdout=log, stderr=subprocess.STDOUT
        )


def _await(endpoint: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            _DIRECT.open(f"{endpoint}/_ministack/health", timeout=2).close()
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
                return
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"ministack did not start on {endpoint}; its log: {log.read_text()[-2000:]}")
