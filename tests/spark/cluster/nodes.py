"""A real Spark cluster on this machine: a standalone master and two workers, on two host names, out of the pip-installed pyspark.

Drivers are processes of their own, as `spark-submit` starts them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from gapless.spark.setup.start import find_java

ROOT = Path(__file__).resolve().parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Javas that live for seconds."""
_START_LIMIT_S = 120
_RUN_LIMIT_S, _LIFE_LIMIT_S = 500, 3600
_END_LIMIT_S = 30
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_LISTENS = re.compile(r"Spark Connect server started at: (\S+)")
_JOINED = re.compile("Successfully registered with master")


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A process that runs until it is killed."""

    process: subprocess.Popen[bytes]
    log: Path

    def awaited(self, line: re.Pattern[str]) -> re.Match[str]:
        """What its log says; RuntimeError where it ends, or two minutes pass, without."""
        deadline = time.monotonic() + _START_LIMIT_S
        while True:
            running = self.process.poll() is None and time.monotonic() < deadline
            text = self.log.read_text(errors="replace")
            if found := line.search(text):
                return found
            if not running:
                raise RuntimeError(f"no {line.pattern!r} in {self.log}: {text[-3000:]}")
            time.sleep(0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster; `with cluster(folder)` makes one."""

    master: str
    """Such as "spark://127.0.0.1:40123"."""
    folder: Path
    """Its logs, and all that its processes put on disk."""
    python: Path
    """A Python with all that gapless needs but not gapless itself: what workers run."""

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of its processes and drivers: nothing of ours is on the path of Python."""
        return _environment(self.folder, self.python, **more)

    def submit(self, program: Path, *words: object, options: Sequence[str] = (), **more: str) -> Any:
        """What a program says, as JSON on the last line of its output, that `spark-submit` runs on the cluster with these options.

        `more` is added to its environment. AssertionError, with the end of its log, where it fails or takes eight minutes.
        """
        command = [SPARK_HOME / "bin" / "spark-submit", "--master", self.master, *conf(DRIVER), *options, program, *words]
        return ended(command, self.environment(**more)).json()

    def run(self, program: Path, *words: object, options: Sequence[str] = (), **more: str) -> Any:
        """The same of a program that Python runs and that makes its session itself."""
        asked = shlex.join([*conf(DRIVER), *options, "pyspark-shell"])
        return ended([self.python, program, *words], self.environment(PYSPARK_SUBMIT_ARGS=asked, **more)).json()

    @contextlib.contextmanager
    def connect_server(self, **more: str) -> Iterator[str]:
        """A server of Spark Connect that runs on the cluster: its URL, such as "sc://127.0.0.1:40124". `more` is as in `submit`."""
        options = {**DRIVER, "spark.log.level": "INFO", "spark.connect.grpc.binding.address": HOSTS[0]}
        words = ["org.apache.spark.deploy.SparkSubmit", "--master", self.master, "--class", _CONNECT]
        words += [*conf({**options, "spark.connect.grpc.binding.port": "0"}), "spark-internal"]
        with _daemon(words, self.folder / "connect.log", self.environment(**more)) as server:
            yield f"sc://{server.awaited(_LISTENS)[1]}"


DRIVER = {
    "spark.driver.host": HOSTS[0],
    "spark.driver.bindAddress": HOSTS[0],
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.cores.max": "4",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
"""Options of drivers here."""


def conf(options: Mapping[str, str]) -> list[str]:
    """Spark's options as words of a command line."""
    return [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]


@contextlib.contextmanager
def cluster(folder: Path, **more: str) -> Iterator[Cluster]:
    """A master and two workers of two cores each; `more` is added to the workers' environment.

    RuntimeError where it does not start. At the end, and in an hour at the latest, all of its processes are killed.
    """
    python = bare_python(folder / "python")
    environment = {**_environment(folder, python), "SPARK_DAEMON_JAVA_OPTS": QUICK, "SPARK_DAEMON_MEMORY": "256m"}
    deploy = "org.apache.spark.deploy"
    with contextlib.ExitStack() as held:
        words = [f"{deploy}.master.Master", "--host", HOSTS[0], "--port", "0", "--webui-port", "0"]
        master = held.enter_context(_daemon(words, folder / "master.log", environment)).awaited(_MASTER)[1]
        workers = []
        for host in HOSTS:
            words = [f"{deploy}.worker.Worker", "--host", host, "--webui-port", "0", "-c", "2", "-m", "1g"]
            words += ["--work-dir", str(folder / "work" / host), master]
            workers.append(held.enter_context(_daemon(words, folder / f"worker-{host}.log", {**environment, **more})))
        for worker in workers:
            worker.awaited(_JOINED)
        yield Cluster(master=master, folder=folder, python=python)


def bare_python(folder: Path) -> Path:
    """A Python that sees what is installed beside this one, but not gapless, which is there by a `.pth` file alone."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    # A folder that a .pth file names is no site of its own: the .pth files in it are not read.
    (site / "others.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    return folder / "bin" / "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that ended by itself."""

    words: Sequence[str]
    code: int
    text: str
    """All that it printed."""

    def json(self) -> Any:
        """What its last line says; AssertionError, with the end of its log, where it failed."""
        assert self.code == 0, f"{self.words} ended with {self.code}: {self.text[-6000:]}"
        return json.loads(self.text.strip().rpartition("\n")[2])


def ended(command: Sequence[object], environment: Mapping[str, str]) -> Ended:
    """Run a command until it ends, then end all that it left running; AssertionError where it takes eight minutes."""
    words = [str(word) for word in command]
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            text, _ = process.communicate(timeout=_RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            _kill_session(process.pid)
            text, _ = process.communicate()
            raise AssertionError(f"{words} took more than {_RUN_LIMIT_S} s: {text[-6000:]}") from None
        finally:
            _kill_session(process.pid)
    return Ended(words=words, code=process.returncode, text=text)


def _environment(folder: Path, python: Path, **more: str) -> dict[str, str]:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "XDG_CACHE_HOME") if name in os.environ}
    return {
        **kept,
        "JAVA_HOME": str(find_java({"PATH": ""})),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={scratch}",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        **more,
    }


@contextlib.contextmanager
def _daemon(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[Daemon]:
    # Should even this process be killed, `timeout` ends them some day.
    command = ["timeout", "--signal=KILL", str(_LIFE_LIMIT_S), str(SPARK_HOME / "bin" / "spark-class"), *words]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    with process:
        try:
            yield Daemon(process=process, log=log)
        finally:
            _kill_session(process.pid)


def _kill_session(leader: int) -> None:
    """Kill all processes of a session: Python workers leave the group of their Java, but not its session."""
    for _ in range(3):
        for process in _running():
            with contextlib.suppress(OSError):
                if os.getsid(process) == leader:
                    os.kill(process, signal.SIGKILL)


def left_in(folder: Path) -> list[int]:
    """The processes that still run, seconds later, with a folder in their environment, as all of a cluster there do."""
    deadline = time.monotonic() + _END_LIMIT_S
    while (found := _processes_of(str(folder).encode())) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _processes_of(folder: bytes) -> list[int]:
    found = []
    for process in _running():
        with contextlib.suppress(OSError):
            if folder in Path(f"/proc/{process}/environ").read_bytes():
                found.append(process)
    return found


def _running() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]
