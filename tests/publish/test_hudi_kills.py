"""A process that writes and publishes as Hudi, on a disk and in a bucket, killed at any moment: readers have the rows of one version, always."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import gapless as gl
from support.hudi_published import PUBLISHED, rows_of
from support.hudi_reader import rows_seen, versions_told

WRITER = """
import json, sys
import gapless as gl
from support.clocked_table import rows_at
table = gl.open(sys.argv[1], storage_options=json.loads(sys.argv[2]))
for number in range(10**6):
    at = table.version * 10
    table.append(rows_at(at, 3))
    if number % 2 == 1:
        table.publish()
    if number % 3 == 2:
        table.delete(f"v = {at + 1}")
    if number % 4 == 3:
        table.compact()
    if number % 5 == 4:
        table.restore(table.version - 2)
        table.expire(keep_versions=3)
    print("went on", flush=True)
"""
"""Each third version or so is a copy, taken away later."""


def run_and_kill(url: str, options: dict[str, str], rounds: int, then_s: float) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", WRITER, url, json.dumps(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        for _ in range(rounds):
            assert writer.stdout.readline() == "went on\n"
        time.sleep(then_s)
        writer.send_signal(signal.SIGKILL)


def check_left(table: gl.TimeSeriesTable) -> None:
    """What a killed writer left shows one version, whole; the next publication goes on from there, and each version is there once."""
    store = table.refresh()._env.store
    (left,) = table.publications()
    assert left.version is not None
    assert rows_seen(store) == rows_of(table.at(version=left.version))
    assert table.publish()[0].behind == 0
    assert rows_seen(store) == rows_of(table.refresh())
    told = Counter(version for version in versions_told(store).values())
    begun = json.loads(store.get("data/.hoodie/.aux/gapless.json"))["version"]
    assert {version for version, count in told.items() if count > 1} <= {begun}


@pytest.mark.parametrize("on_commit", [True, pytest.param(False, marks=pytest.mark.soak)])
@pytest.mark.parametrize("place", ["disk", "bucket"])
def test_killed_at_random_and_published_by_another(
    tmp_path: Path, request: pytest.FixtureRequest, place: str, on_commit: bool
) -> None:
    url, options = (str(tmp_path), {}) if place == "disk" else request.getfixturevalue("s3_options")
    properties = {**PUBLISHED, "publish_on_commit": on_commit}
    table = gl.create(f"{url}/t", index="ts", bucket="1h", properties=properties, storage_options=options)
    for number in range(4):
        run_and_kill(f"{url}/t", options, 2 + number, 0.013 * number)
        check_left(table)
    assert gl.verify(f"{url}/t", storage_options=options).ok
