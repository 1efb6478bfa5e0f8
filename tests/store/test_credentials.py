"""A bucket without credentials is told at once; credentials of a cloud's machine work, and may be late."""

from __future__ import annotations

import http.server
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import obstore.exceptions
import pytest

import gapless as gl
from gapless.errors import AccessDenied, InvalidOption, StoreUnavailable
from gapless.store.credentials import are_named
from gapless.store.object_store_errors import object_store_error
from gapless.store.open import open_store

S3 = tuple[str, dict[str, str]]


@dataclass
class Metadata:
    """What a machine's metadata service of EC2 answers, and was asked."""

    url: str = ""
    refusals: list[int] = field(default_factory=list)
    """Statuses that come before any answer, one a request."""
    always: int | None = None
    """The status of each answer, where it never gives credentials."""
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.always is not None or self.refusals:
            return self.always or self.refusals.pop(0), b"no"
        if path.endswith("/latest/api/token"):
            return 200, b"token"
        if path.endswith("/security-credentials/"):
            return 200, b"writer"
        # Over already: each request asks anew.
        until = (datetime.now(UTC) - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        made = {"AccessKeyId": "test", "SecretAccessKey": "test", "Token": "t", "Expiration": until}
        return 200, json.dumps(made).encode()


@contextmanager
def serving(metadata: Metadata) -> Iterator[Metadata]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = metadata.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    metadata.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield metadata
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_credentials_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)


@pytest.fixture
def nobody() -> str:
    """host:port at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


SCRIPT = """
import json, sys
import gapless as gl
try:
    gl.open(sys.argv[1], storage_options=json.loads(sys.argv[2]))
except gl.GaplessError as error:
    print(json.dumps([type(error).__name__, error.what, error.why, error.fix]))
"""


def opened_elsewhere(url: str, options: dict[str, str], home: Path, **environment: str) -> list[str]:
    """Class, what, why and fix of the error that opening raises in a process without credentials in environment or home."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "SYSTEMROOT") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, json.dumps(options)],
        env={**kept, "HOME": str(home), **environment}, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_bucket_without_credentials_says_so(tmp_path: Path, nobody: str) -> None:
    name, what, why, fix = opened_elsewhere("s3://bucket/x", {}, tmp_path, AWS_METADATA_ENDPOINT=f"http://{nobody}")
    assert name == "AccessDenied"
    assert "s3://bucket/x" in what
    assert why.startswith("No credentials were found")
    for looked in ("storage_options", "AWS_ACCESS_KEY_ID", "~/.aws is not read", f"(http://{nobody}) did not answer"):
        assert looked in why
    for said in ('storage_options={"access_key_id": …', "AWS_SECRET_ACCESS_KEY", '{"skip_signature": "true"}'):
        assert said in fix


def test_with_nothing_in_the_environment_at_all(tmp_path: Path, require: Any) -> None:
    """Asks what really is at 169.254.169.254."""
    found = opened_elsewhere("s3://gapless-no-such-bucket/x", {}, tmp_path)
    require(found[0] != "TableNotFound" and "NoSuchBucket" not in found[1], "this machine has credentials of its own")
    assert found[0] == "AccessDenied"
    assert found[2].startswith("No credentials were found")


@pytest.mark.parametrize(
    ("url", "options", "variables", "said"),
    [("gs://bucket/x", {}, ("GCE_METADATA_HOST", "GCE_METADATA_IP"), ("GOOGLE_APPLICATION_CREDENTIALS", '"service_account"')),
     ("az://bucket/x", {"account_name": "acct", "msi_endpoint": "http://{}/metadata/identity/oauth2/token"}, (),
      ("AZURE_STORAGE_ACCOUNT_KEY", '"account_key"'))],
)  # fmt: skip
def test_the_other_clouds_say_so_too(
    url: str, options: dict[str, str], variables: tuple[str, ...], said: tuple[str, ...], tmp_path: Path, nobody: str
) -> None:
    given = {name: value.format(nobody) for name, value in options.items()}
    name, what, why, fix = opened_elsewhere(url, given, tmp_path, **dict.fromkeys(variables, nobody))
    assert name == "AccessDenied"
    assert url in what
    assert why.startswith("No credentials were found")
    assert f"(http://{nobody}) did not answer" in why
    assert all(text in fix for text in said)


def test_a_metadata_service_that_takes_no_connection() -> None:
    """As outside of a cloud, where packets to its address are lost."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        queued = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
            queued.append(one)
        options = {"metadata_endpoint": f"http://127.0.0.1:{listening.getsockname()[1]}"}
        with pytest.raises(AccessDenied, match=r"No credentials were found.*did not answer"):
            gl.open("s3://bucket/x", storage_options=options)
        for one in queued:
            one.close()


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_metadata_service_without_credentials(status: int) -> None:
    with serving(Metadata(always=status)) as metadata:
        store = open_store("s3://bucket/x", {"metadata_endpoint": metadata.url})
        for call in (
            lambda: store.get("a"),
            lambda: store.put("a", b""),
            lambda: store.delete("a"),
            lambda: list(store.list()),
        ):
            with pytest.raises(AccessDenied, match=f"answered {status}"):
                call()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_metadata_service_in_trouble_may_have_credentials_later(status: int) -> None:
    with serving(Metadata(always=status)) as metadata:
        store = open_store("s3://bucket/x", {"metadata_endpoint": metadata.url, "max_retries": "1"})
        with pytest.raises(StoreUnavailable):
            store.get("a")


def test_credentials_of_the_machine_work_and_are_waited_for(s3_options: S3, caplog: pytest.LogCaptureFixture) -> None:
    """Three refusals are more than the first request waits out; the requests after it have all their retries."""
    url, options = s3_options
    caplog.set_level(logging.INFO, logger="gapless.store")
    with serving(Metadata(refusals=[503, 503, 503])) as metadata:
        given = {name: value for name, value in options.items() if name not in ("access_key_id", "secret_access_key")}
        table = gl.create(url, index="ts", bucket="1h", storage_options={**given, "metadata_endpoint": metadata.url})
        table.append({"ts": [datetime(2026, 1, 5, tzinfo=UTC)], "v": [1.0]})
    assert "/latest/meta-data/iam/security-credentials/writer" in metadata.asked
    said = {record.getMessage() for record in caplog.records if record.name == "gapless.store"}
    assert said == {f"{url}: no credentials are named; those of the machine's metadata service are taken"}
    assert gl.open(url, storage_options=options).count() == 1


def test_a_metadata_service_that_goes_away_later_denies_nothing(s3_options: S3) -> None:
    url, options = s3_options
    given = {name: value for name, value in options.items() if name not in ("access_key_id", "secret_access_key")}
    with serving(Metadata()) as metadata:
        store = open_store(url, {**given, "metadata_endpoint": metadata.url, "max_retries": "1"})
        store.put("a", b"x")
    with pytest.raises(StoreUnavailable):
        store.get("a")


def test_credentials_that_are_named_are_not_looked_for(s3_options: S3) -> None:
    url, options = s3_options
    with serving(Metadata()) as metadata:
        open_store(url, {**options, "metadata_endpoint": metadata.url}).put("a", b"x")
        assert metadata.asked == []


def test_a_public_bucket_is_asked_without_credentials(s3_options: S3) -> None:
    url, options = s3_options
    open_store(url, options).put("a", b"x")
    given = {name: value for name, value in options.items() if name not in ("access_key_id", "secret_access_key")}
    with serving(Metadata(always=403)) as metadata:
        store = open_store(url, {**given, "metadata_endpoint": metadata.url, "skip_signature": "true"})
        assert store.get("a") == b"x"
        assert metadata.asked == []


@pytest.mark.parametrize(
    ("url", "options"),
    [("s3://b/x", {"web_identity_token_file": "/no/such", "role_arn": "arn:aws:iam::123456789012:role/x"}),
     ("s3://b/x", {"container_credentials_full_uri": "http://169.254.170.23/v1/credentials",
                   "container_authorization_token_file": "/no/such"}),
     ("az://b/x", {"account_name": "a", "federated_token_file": "/no/such", "client_id": "a", "tenant_id": "b"})],
)  # fmt: skip
def test_a_token_file_that_is_not_there(url: str, options: dict[str, str]) -> None:
    with pytest.raises(AccessDenied, match="cannot be had on this machine"):
        gl.open(url, storage_options=options)


def test_azure_without_an_account_says_how_to_name_one() -> None:
    with pytest.raises(InvalidOption) as caught:
        open_store("az://container/x")
    assert "account_name" in caught.value.fix


@pytest.mark.parametrize(
    ("request_sent", "answer", "expected"),
    [("POST REDACTED in 1ms, after 2 retries, max_retries: 6, retry_timeout: 30s ", "403 Forbidden: x", AccessDenied),
     ("token request: Error performing POST https://oauth2.googleapis.com/token in 1ms", "400 Bad Request: invalid_grant", AccessDenied),
     ("token request: Error performing POST https://login.microsoftonline.com/t/oauth2/v2.0/token in 1ms", "401 Unauthorized", AccessDenied),
     ("GET http://169.254.170.2/v2/x in 4ms", "403 Forbidden", AccessDenied),
     ("token request: Error performing POST https://login.microsoftonline.com/t/oauth2/v2.0/token in 1ms", "", StoreUnavailable),
     ("PUT http://169.254.169.254/latest/api/token in 1s", "", StoreUnavailable),
     ("PUT https://s3.eu.amazonaws.com/latest/api/token/x in 1ms, after 1 retries, max_retries: 6", "", StoreUnavailable)],
)  # fmt: skip
def test_what_an_answer_to_a_request_for_credentials_means(request_sent: str, answer: str, expected: type[Exception]) -> None:
    """Nothing was sent to the bucket, so a write that was denied certainly took no effect."""
    ended = f"Server returned non-2xx status code: {answer}" if answer else "HTTP error: error sending request"
    error = obstore.exceptions.GenericError(f"Generic S3 error: Error performing {request_sent} - {ended}")
    assert type(object_store_error(error, act="writing", path="a", url="s3://b/t")) is expected


@pytest.mark.parametrize(
    ("kind", "options", "environment", "named"),
    [("s3", {"AWS_ACCESS_KEY_ID": "x"}, [], True), ("s3", {}, ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], True),
     ("s3", {"region": "x"}, ["PATH", "ACCESS_KEY_ID"], False), ("gs", {}, ["GOOGLE_APPLICATION_CREDENTIALS"], True),
     ("gs", {}, ["AWS_ACCESS_KEY_ID"], False), ("az", {}, ["AZURE_STORAGE_ACCOUNT_KEY"], True), ("az", {"account_name": "x"}, [], False)],
)  # fmt: skip
def test_which_settings_name_credentials(kind: Any, options: dict[str, str], environment: list[str], named: bool) -> None:
    assert are_named(kind, options, environment) is named
