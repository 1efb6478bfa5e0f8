"""A PostgreSQL server of its own for the tests that want one: it can be killed, and started again on what it had written."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from psycopg import Connection

_START_S = 60.0
_SETTINGS = ("unix_socket_directories=", "fsync=off", "max_connections=20", "shared_buffers=16MB", "timezone=Asia/Kolkata")
"""No socket but the port; and a zone of the server that is none of the tests'."""


def _programs() -> Path | None:
    """The folder of `initdb` and `postgres`: Debian has them off the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


def _as_user() -> list[str]:
    """How to run a program that refuses to be run by root."""
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else []


@dataclass
class Postgres:
    """A server on a port of this machine. Its user `gapless` may do all, by the password "s3cret"."""

    programs: Path
    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def url(self, database: str, *, user: str = "gapless", password: str = "s3cret") -> str:
        """A source's URL of a database."""
        return f"sql:postgresql+psycopg://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The name of a new, empty database."""
        name = f"d_{uuid.uuid4().hex[:8]}"
        self.run("postgres", f"CREATE DATABASE {name}")
        return name

    def connect(self, database: str, *, autocommit: bool = True) -> Connection[tuple[Any, ...]]:
        """A connection, as another program has one."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="gapless", password="s3cret", dbname=database, autocommit=autocommit
        )

    def run(self, database: str, *statements: str) -> None:
        """Each a transaction of its own."""
        with self.connect(database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def make(self) -> None:
        """The files of a server without databases of ours."""
        password = self.folder / "password"
        password.write_text("s3cret")
        if os.getuid() == 0:
            for path in (self.folder, password):
                shutil.chown(path, "nobody", "nogroup")
        made = [
            str(self.programs / "initdb"),
            "-D",
            str(self.folder / "data"),
            "-U",
            "gapless",
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
        ]
        command = [*_as_user(), *made, "--locale=C.UTF-8", "--no-sync", f"--pwfile={password}"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self) -> None:
        """Begin, or begin again after a kill; ready when it returns."""
        settings = [word for setting in (*_SETTINGS, f"port={self.port}") for word in ("-c", setting)]
        command = [*_as_user(), str(self.programs / "postgres"), "-D", str(self.folder / "data"), *settings]
        deadline = time.monotonic() + _START_S
        while True:
            if self.process is None or self.process.poll() is not None:  # a server that was killed may still hold its memory
                with (self.folder / "log").open("ab") as log:
                    self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
            try:
                self.connect("postgres").close()
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # between two looks at another process
            else:
                return

    def kill(self) -> None:
        """As a machine that goes down: nothing is finished, connections break."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End at once; whoever is connected is cut off."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()


@pytest.fixture(scope="session")
def postgres(require: Callable[[object, str], None]) -> Iterator[Postgres]:
    """One server for all tests of a process."""
    programs = _programs()
    require(programs, "there is no initdb: PostgreSQL is not installed (apt-get install postgresql)")
    require(importlib.util.find_spec("psycopg"), "psycopg is not installed: no driver for PostgreSQL")
    assert programs is not None
    # A folder that another user may enter, which the tests' own is not.
    with tempfile.TemporaryDirectory(prefix="gapless-postgres-", ignore_cleanup_errors=True) as folder:
        server = Postgres(programs=programs, folder=Path(folder))
        server.make()
        try:
            server.start()
            yield server
        finally:
            server.stop()
