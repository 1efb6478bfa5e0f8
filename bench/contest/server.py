"""A PostgreSQL server of the contest's own, on a socket in its own folder, run by a user who is not root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

SOCKET = "PEERS_POSTGRES"
"""The variable that tells workers the socket's folder."""
_USERS = ("postgres", "nobody")


@contextlib.contextmanager
def postgres(folder: Path, log: Path) -> Iterator[str]:
    """Run a server whose settings are PostgreSQL's defaults, but for no network; gives what is to be said of it, "" where all is well.

    Workers find it by the variable `SOCKET`. Where there is none to be had, it is not set.
    """
    said = _start(folder, log)
    try:
        yield said
    finally:
        if not said:
            _run("pg_ctl", "-D", str(folder / "data"), "-m", "fast", "stop")
            os.environ.pop(SOCKET)


def _start(folder: Path, log: Path) -> str:
    if any(_program(name) is None for name in ("initdb", "pg_ctl")):
        return "initdb and pg_ctl are not on the PATH (Debian: apt-get install postgresql)"
    folder.mkdir(parents=True)
    if os.getuid() == 0:
        shutil.chown(folder, _user())
        _open_way(folder)
    started = (
        _run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "bench", "-E", "UTF8", "--locale=C"),
        _run("pg_ctl", "-D", str(folder / "data"), "-w", "-o", f"-c listen_addresses='' -k {folder}", "start"),
    )
    log.write_text("\n".join(each.stdout for each in started))
    failed = [each for each in started if each.returncode]
    if failed:
        return f"its server did not start, see {log}"
    os.environ[SOCKET] = str(folder)
    return ""


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As the caller, or, where that is root (whom PostgreSQL refuses), as another user; what is said goes into a file, since the server
    keeps what it was given open.
    """
    found = _program(program)
    assert found is not None
    become = ["runuser", "-u", _user(), "--"] if os.getuid() == 0 else []
    said = Path("/tmp") / f"peers-{os.getpid()}-{program}.log"
    with said.open("w+") as file:
        done = subprocess.run([*become, found, *arguments], cwd="/", stdout=file, stderr=file, check=False)
        file.seek(0)
        text = file.read()
    said.unlink()
    return subprocess.CompletedProcess(done.args, done.returncode, text)


def _program(name: str) -> str | None:
    homes = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(homes))


def _user() -> str:
    names = {each.pw_name for each in pwd.getpwall()}
    return next(name for name in _USERS if name in names)


def _open_way(folder: Path) -> None:
    """Let others pass through the folders above, which `tempfile` makes for their owner alone."""
    for parent in folder.parents:
        if parent.owner() == "root" and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
