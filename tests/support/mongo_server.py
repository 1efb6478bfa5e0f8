"""A server of MongoDB's protocol in a process of its own, whose answers ours are held against."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

PROGRAMS = Path(__file__).resolve().parents[2] / "build" / "interop" / "secantusdb-0.7.0b3" / "bin"
SERVER = PROGRAMS / "secantusd-py"
UP_MS = 60_000
"""The longest start on a crowded machine."""


@pytest.fixture(scope="session")
def mongo(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[MongoClient[Any]]:
    """A client of one, empty, in memory."""
    require(SERVER.is_file(), "secantusdb is not there: make interop")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # By its Python, wherever the environment was made.
    command = [
        PROGRAMS / "python",
        SERVER,
        "--host",
        "127.0.0.1",
        "--port",
        port,
        "--storage-path",
        ":memory:",
        "--log-level",
        "WARNING",
    ]
    log = tmp_path_factory.mktemp("mongo") / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen([*map(str, command), "--cache-size", "256M"], stdout=out, stderr=out) as server,
    ):
        try:
            address = f"mongodb://127.0.0.1:{port}/?directConnection=true"
            with MongoClient[Any](address, serverSelectionTimeoutMS=UP_MS) as client:
                client.admin.command("ping")
                yield client
        finally:
            server.kill()
