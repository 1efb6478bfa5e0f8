"""Buckets of Cloudflare R2: where they are looked for, and a table in one, whose server is that of the S3 tests."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, StoreUnavailable
from gapless.store.open import open_store
from gapless.tables.delta.table import DeltaTable

ACCOUNT = "0123456789abcdef0123456789ABCDEF"
HOST = f"{ACCOUNT.lower()}.r2.cloudflarestorage.com:443"
KEYS = {"access_key_id": "k", "secret_access_key": "very secret", "max_retries": "0"}
S3 = tuple[str, dict[str, str]]


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """An HTTP proxy that lets no one through, and the requests that came: so it is seen where a client goes, without a network."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(4096).decode(errors="replace"))
                    connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("options", "environment", "host"),
    [
        ({"account_id": ACCOUNT}, {}, HOST),
        ({"account_id": ACCOUNT, "jurisdiction": "default"}, {}, HOST),
        ({"account_id": ACCOUNT, "jurisdiction": "eu"}, {}, HOST.replace(".r2", ".eu.r2")),
        ({"account_id": ACCOUNT}, {"CLOUDFLARE_ACCOUNT_ID": "f" * 32}, HOST),
        ({}, {"CLOUDFLARE_ACCOUNT_ID": ACCOUNT}, HOST),
        ({"account_id": ACCOUNT}, {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_ENDPOINT": "http://127.0.0.1:1"}, HOST),
        ({"endpoint": "https://r2.example.test"}, {"CLOUDFLARE_ACCOUNT_ID": ACCOUNT}, "r2.example.test:443"),
        ({"aws_endpoint_url": "https://r2.example.test"}, {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}, "r2.example.test:443"),
    ],
    ids=["account", "default", "eu", "option first", "variable", "endpoints of AWS", "endpoint", "endpoint before AWS"],
)
def test_where_a_client_goes(
    options: dict[str, str],
    environment: dict[str, str],
    host: str,
    proxy: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CLOUDFLARE_ACCOUNT_ID", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    url, asked = proxy
    store = open_store("r2://bucket/t", {**KEYS, **options, "proxy_url": url})
    for one in (store, pickle.loads(pickle.dumps(store))):
        with pytest.raises(StoreUnavailable) as caught:
            one.get("a")
        assert "very secret" not in str(caught.value)
    assert {request.split()[1] for request in asked} == {host}


@pytest.mark.parametrize(("options", "region"), [({}, "auto"), ({"region": "weur"}, "weur")], ids=["default", "given"])
def test_requests_are_signed_for_a_region(
    options: dict[str, str], region: str, proxy: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    url, asked = proxy
    with pytest.raises(StoreUnavailable):
        open_store("r2://bucket/t", {**KEYS, **options, "endpoint": url, "allow_http": "true"}).get("a")
    assert f"/{region}/s3/aws4_request" in asked[0]
    assert asked[0].startswith("GET /bucket/t/a ")


@pytest.mark.parametrize(
    ("options", "named", "says"),
    [
        ({}, "account_id", "CLOUDFLARE_ACCOUNT_ID"),
        ({"account_id": ""}, "account_id", "CLOUDFLARE_ACCOUNT_ID"),
        ({"account_id": "my-account"}, "account_id", "32 digits"),
        ({"account_id": f"{ACCOUNT[:31]}/"}, "account_id", "32 digits"),
        ({"account_id": ACCOUNT, "jurisdiction": "us"}, "jurisdiction", "'eu'|eu"),
        ({"account_id": ACCOUNT, "endpoint": "https://x"}, "account_id", "Leave one out"),
        ({"jurisdiction": "eu", "endpoint": "https://x"}, "jurisdiction", "Leave one out"),
        ({"account_id": ACCOUNT, "regoin": "x"}, "regoin", "'region'"),
    ],
    ids=["none", "empty", "no account", "a part of a host", "jurisdiction", "two places", "jurisdiction and place", "unknown"],
)
def test_what_is_refused(options: Any, named: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOUDFLARE_ACCOUNT_ID", raising=False)
    with pytest.raises(InvalidOption, match=says) as caught:
        open_store("r2://bucket/t", {**KEYS, **options})
    assert caught.value.option == named
    assert "very secret" not in str(caught.value)


def test_these_options_are_of_r2_alone() -> None:
    with pytest.raises(InvalidOption) as caught:
        open_store("s3://bucket/t", {**KEYS, "region": "x", "account_id": ACCOUNT})
    assert caught.value.option == "account_id"


def test_a_table_lives_there(s3_options: S3) -> None:
    url, given = s3_options
    place = url.replace("s3://", "r2://")
    table = gl.delta.create(f"{place}/d", pa.schema([("n", pa.int64())]), storage_options=given)
    other = gl.delta.open(f"{place}/d", storage_options=given)
    table.append({"n": [1, 2]})
    table.append({"n": [3]})
    table.delete("n = 2")
    other.refresh()
    other.compact()
    assert table.url == f"{place}/d"
    again = DeltaTable.open(f"{url}/d", storage_options=given)
    assert sorted(again.scan().to_arrow()["n"].to_pylist()) == [1, 3]
    assert len(again.files()) == 1
