"""A process that publishes as Iceberg, killed at any moment: each version is there once, and readers have the rows of one version."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import gapless as gl
from support.clocked_table import rows_at

WRITER = """
import json, sys
import gapless as gl
from support.clocked_table import rows_at
table = gl.open(sys.argv[1], storage_options=json.loads(sys.argv[2]))
for number in range(10**6):
    at = table.version * 10
    table.append(rows_at(at, 3))
    if number % 3 == 2:
        table.delete(f"v = {at + 1}")
    if number % 5 == 4:
        table.compact()
    if number == 2:
        print("ready", flush=True)
"""


PUBLISHER = """
import json, sys, time
import gapless as gl
table = gl.open(sys.argv[1], storage_options=json.loads(sys.argv[2]))
print("ready", flush=True)
while True:
    table.publish()
    time.sleep(0.02)
"""


@dataclass(frozen=True)
class Place:
    """Where a table lies, and how gapless and pyiceberg get there."""

    url: str
    options: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def run(self, code: str) -> subprocess.Popen[str]:
        """A process that works on the table, once it has said that it is ready."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-c", code, self.url, json.dumps(self.options)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def published(self) -> StaticTable:
        """What a reader finds."""
        return StaticTable.from_metadata(f"{self.url}/_iceberg", self.keys)


@pytest.fixture(params=["disk", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place on this disk, or in a bucket of a real S3 server."""
    if request.param == "disk":
        return Place(str(tmp_path / "t"))
    url, options = request.getfixturevalue("s3_options")
    named = {
        "endpoint": "endpoint",
        "region": "region",
        "access_key_id": "access-key-id",
        "secret_access_key": "secret-access-key",
    }
    return Place(f"{url}/t", options, {f"s3.{theirs}": options[ours] for ours, theirs in named.items()})


def check_left(place: Place, table: gl.TimeSeriesTable) -> None:
    """What a killed publisher left is one version of the table, or nothing yet."""
    left = place.published()
    current = left.current_snapshot()
    if current is not None and current.summary is not None:
        version = int(str(current.summary["gapless.version"]))
        assert left.scan().to_arrow().num_rows == table.at(version=version).scan().count()


def check_whole(place: Place, table: gl.TimeSeriesTable) -> None:
    """Each version is there once, and the newest is the table's."""
    assert table.publish()[0].behind == 0
    published = place.published()
    told = [one.summary["gapless.version"] for one in published.snapshots() if one.summary]
    assert len(told) == len(set(told))
    assert published.scan().to_arrow().num_rows == table.refresh().scan().count()
    assert gl.verify(place.url, storage_options=place.options).ok


@pytest.mark.parametrize("on_commit", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_killed_at_random_and_published_by_another(place: Place, on_commit: bool) -> None:
    properties = {"publish": ["iceberg"], "publish_on_commit": on_commit}
    table = gl.create(place.url, index="ts", bucket="1h", properties=properties, storage_options=place.options)
    for number in range(3):
        code = WRITER if on_commit else WRITER.replace("    if number % 3", "    table.publish()\n    if number % 3")
        with place.run(code) as writer:
            time.sleep(0.3 + 0.37 * number)
            writer.send_signal(signal.SIGKILL)
        check_left(place, table)
        check_whole(place, table)


def test_a_publisher_is_killed_beside_another_while_rows_come(place: Place) -> None:
    """Two publish the same commits, and one after the other dies at any moment."""
    properties = {"publish": ["iceberg"], "publish_on_commit": False, "on_overlap": "allow"}
    table = gl.create(place.url, index="ts", bucket="1h", properties=properties, storage_options=place.options)
    table.append(rows_at(0, 3))
    table.publish()
    publishers = [place.run(PUBLISHER) for _ in range(2)]
    try:
        for number in range(12):
            table.append(rows_at(10 * (number + 1), 3))
            if number % 5 == 2:
                table.delete(f"v = {10 * number + 1}")
            if number % 4 == 3:
                _kill(publishers[number % 2])
                check_left(place, table)
                publishers[number % 2] = place.run(PUBLISHER)
    finally:
        for one in publishers:
            _kill(one)
    check_left(place, table)
    check_whole(place, table)


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    with process:
        pass
