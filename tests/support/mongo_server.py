"""A server of MongoDB's protocol in a process of its own, whose answers ours are held against."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

PROGRAMS = Path(__file__).resolve().parents[2] / "build" / "interop" / "secantusdb-0.7.0b3" / "bin"
SERVER = PROGRAMS / "secantusd-py"
UP_MS = 60_000
"""The longest start on a crowded machine."""


@contextmanager
def serving(log: Path) -> Iterator[MongoClient[Any]]:
    """A client of one, empty, in memory, which ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # By its Python, wherever the environment was made.
    command = [PROGRAMS / "python", SERVER, "--host", "127.0.0.1", "--port", port, "--storage-path", ":memory:"]
    more = ["--log-level", "WARNING", "--cache-size", "256M"]
    with log.open("wb") as out, subprocess.Popen([*map(str, command), *more], stdout=out, stderr=out) as server:
        try:
            address = f"mongodb://127.0.0.1:{port}/?directConnection=true"
            with MongoClient[Any](address, serverSelectionTimeoutMS=UP_MS) as client:
                client.admin.command("ping")
                yield client
        finally:
            server.kill()


@pytest.fixture(scope="session")
def mongo(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[MongoClient[Any]]:
    """A client of one, for all tests of a worker."""
    require(SERVER.is_file(), "secantusdb is not there: make interop")
    with serving(tmp_path_factory.mktemp("mongo") / "log") as client:
        yield client
