"""A Kafka broker on this machine, of one node, as the demo and tests want it: its jars come from Maven Central, once."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gapless.errors import SparkNotStarted
from gapless.runtime.environment import RandomIds, SystemClock
from gapless.spark.setup.maven import Module, fetch_jars
from gapless.spark.setup.not_started import explained

KAFKA = "org.apache.kafka:kafka_2.13:4.1.2"
_UP_S = 120.0
"""The longest start on a crowded machine."""
_LOOK_S = 0.1
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}
num.partitions={partitions}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def broker_jars(java: Path, place: Path) -> Path:
    """The folder with a broker's jars, 54 MB, below `place`; brought where it is not there, by one process at a time.

    `java` is the home of the Java to fetch them with. Raises SparkNotStarted where they are not to be had.
    """
    module = Module.parse(KAFKA)
    jars = place / f"kafka-{module.version}"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            made = jars.with_name(f"{jars.name}.{os.getpid()}")
            said = fetch_jars(java / "bin" / "java", module, made, cache=place / "ivy-kafka")
            if said:
                error = explained(said, (KAFKA,), str(java))
                what = error.what.replace("Spark did not start", "the Kafka broker did not start")
                raise SparkNotStarted(what, why=error.why, fix=error.fix, packages=(KAFKA,), java=str(java))
            made.rename(jars)
    return jars


@contextmanager
def kafka_broker(java: Path, jars: Path, folder: Path, *, partitions: int = 4) -> Iterator[str]:
    """A broker while the block runs, as "host:port": it makes each topic that is asked for, and keeps its data in `folder`.

    Raises SparkNotStarted where it ends at once, with the last that it said.
    """
    port, controller = _free_ports()
    folder.mkdir(parents=True, exist_ok=True)
    settings, said = folder / "server.properties", folder / "log"
    text = _SETTINGS.format(port=port, controller=controller, folder=folder / "data", partitions=partitions)
    settings.write_text(text, encoding="utf-8")
    command = [str(java / "bin" / "java"), "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    format_ = ["kafka.tools.StorageTool", "format", "-t", RandomIds().uuid().replace("-", "")[:22], "-c", str(settings)]
    with said.open("wb") as log:
        subprocess.run([*command, *format_], check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603  # the Java that Spark has
    with (
        said.open("ab") as log,
        subprocess.Popen(  # noqa: S603  # as above
            [*command, "kafka.Kafka", str(settings)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        ) as broker,
        killed_with_us(broker),
    ):
        try:
            _wait_until_up(broker, port, said, java)
            yield f"127.0.0.1:{port}"
        finally:
            # Nothing of it is wanted later; asked nicely it would take seconds.
            broker.send_signal(signal.SIGKILL)


@contextmanager
def killed_with_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Within it a process is killed as soon as this one is gone, however that ends, SIGKILL included."""
    # Of the pipe to it only this process has the other end.
    watch = ["/bin/sh", "-c", 'cat >/dev/null; kill -9 "$1"', "watch", str(process.pid)]
    with subprocess.Popen(watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as watcher:  # noqa: S603  # text of ours
        try:
            yield
        finally:
            watcher.kill()


def _wait_until_up(broker: subprocess.Popen[bytes], port: int, said: Path, java: Path) -> None:
    clock = SystemClock()
    until = clock.monotonic() + _UP_S
    while not _answers(port):
        if broker.poll() is not None or clock.monotonic() > until:
            lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
            raise SparkNotStarted(
                "the Kafka broker did not start",
                why=" ".join(lines[-2:])[-500:] or "It said nothing",
                fix=f"{said} has all that it said",
                packages=(KAFKA,),
                java=str(java),
            )
        clock.sleep(_LOOK_S)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
