"""What an object store's client does beyond the contract: options, errors, forks and orders of listing."""

from __future__ import annotations

import pickle
import signal
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any

import obstore
import obstore.exceptions
import obstore.store
import pytest

from gapless.errors import (
    AccessDenied,
    GaplessError,
    InvalidOption,
    InvalidPath,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from gapless.model.protocols import DefersWrites
from gapless.store.object_store_errors import object_store_error
from gapless.store.open import open_store
from gapless.testing.store.case import in_child

S3 = tuple[str, dict[str, str]]
NOWHERE = {"endpoint": "http://127.0.0.1:1", "allow_http": "true", "access_key_id": "k", "secret_access_key": "very secret"}


@pytest.mark.parametrize(
    ("location", "name", "nearest"),
    [("s3://b/t", "acces_key_id", "'access_key_id'"), ("s3://b/t", "regoin", "'region'"), ("gs://b/t", "service_acount", "'service_account'"),
     ("az://b/t", "account_nam", "'account_name'"), ("s3://b/t", "allow_htp", "'allow_http'"), ("s3://b/t", "max_retry", "'max_retries'")],
)  # fmt: skip
def test_an_unknown_option_names_the_nearest(location: str, name: str, nearest: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        open_store(location, {"region": "x", name: "v"} if location.startswith("s3") else {name: "v"})
    assert caught.value.option == name
    assert nearest in caught.value.fix


@pytest.mark.parametrize(
    "options",
    [{"conditional_put": "bogus"}, {"timeout": "soon"}, {"max_retries": "-1"}, {"retry_timeout": "3m"}, {"allow_http": "perhaps"},
     {"region": None}, {"timeout": 1.5}],
)  # fmt: skip
def test_an_option_with_a_wrong_value(options: Any) -> None:
    with pytest.raises(InvalidOption) as caught:
        open_store("s3://b/t", {**NOWHERE, **options})
    assert caught.value.fix
    assert "very secret" not in str(caught.value)


def test_booleans_and_numbers_are_spelled_out() -> None:
    options: Any = {**NOWHERE, "allow_http": True, "max_retries": 0}
    with pytest.raises(StoreUnavailable):
        open_store("s3://b/t", options).get("a")


def test_an_endpoint_that_does_not_answer_is_unavailable_soon() -> None:
    store = open_store("s3://b/t", {**NOWHERE, "max_retries": "1", "retry_timeout": "2"})
    start = time.monotonic()
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"), lambda: store.get("a", 1, 2), lambda: store.put("a", b""), lambda: store.head("a"),
        lambda: store.delete("a"), lambda: list(store.list()),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(StoreUnavailable) as caught:
            call()
        assert "127.0.0.1:1" in caught.value.what
        assert "Debug source" not in str(caught.value)
        assert "very secret" not in str(caught.value)
    assert time.monotonic() - start < 30


def test_plain_http_names_the_option() -> None:
    store = open_store("s3://b/t", {k: v for k, v in NOWHERE.items() if k != "allow_http"})
    with pytest.raises(StoreError, match="allow_http"):
        store.get("a")


def test_a_bucket_that_does_not_exist_is_said_so(s3_options: S3) -> None:
    store = open_store("s3://no-such-bucket/t", s3_options[1])
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"), lambda: store.put("a", b""), lambda: store.put("a", b"", mode="overwrite"), lambda: list(store.list()),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(StoreError, match=r"bucket .*does not exist") as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFound)


@pytest.mark.parametrize("path", ["a\nb", "a\x01", "a\x7f", "a\ud800"])
def test_a_character_that_no_key_can_hold(s3_options: S3, path: str) -> None:
    store = open_store(*s3_options)
    for call in (lambda: store.put(path, b""), lambda: store.get(path), lambda: store.delete(path)):
        with pytest.raises(InvalidPath):
            call()


def test_keys_arrive_as_they_are(s3_options: S3) -> None:
    """Another client of the same bucket sees the same names."""
    prefix, options = s3_options
    root = prefix.removeprefix("s3://gapless-tests/")
    open_store(f"{prefix}/a%20b", options).put("c#d/é?*[%2F", b"x")
    client: Any = obstore.store.S3Store("gapless-tests", config=options)  # type: ignore[arg-type] # options are a plain dict
    assert obstore.get(client, f"{root}/a%20b/c#d/é?*[%2F").bytes().to_bytes() == b"x"


def test_a_neighbour_whose_name_begins_alike_is_not_listed(s3_options: S3) -> None:
    prefix, options = s3_options
    open_store(f"{prefix}/t", options).put("a", b"")
    open_store(f"{prefix}/t2", options).put("b", b"")
    assert [info.path for info in open_store(f"{prefix}/t", options).list()] == ["a"]


def test_stores_that_list_out_of_order_are_sorted(s3_options: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = open_store(*s3_options)
    store._lists_in_order = False
    for path in ("b", "a", "c"):
        store.put(path, b"")
    real = obstore.list
    monkeypatch.setattr(obstore, "list", lambda *a, **k: [list(reversed(chunk)) for chunk in real(*a, **k)])
    assert [info.path for info in store.list()] == ["a", "b", "c"]


def test_a_store_without_ranges_from_the_end(s3_options: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure has none: the size is asked for first."""
    store = open_store(*s3_options)
    store.put("a", b"0123456789")
    real = obstore.get

    def no_suffix(client: Any, path: str, *, options: Any = None) -> Any:
        if options and isinstance(options["range"], dict) and "suffix" in options["range"]:
            raise obstore.exceptions.NotSupportedError("suffix ranges are not supported")
        return real(client, path, options=options)

    monkeypatch.setattr(obstore, "get", no_suffix)
    assert store.get("a", -4) == b"6789"
    assert store.get("a", -4, 2) == b"67"


def test_an_answer_that_is_cut_short_is_not_handed_on(s3_options: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(*s3_options)
    store.put("a", b"0123456789")
    real = obstore.get

    class Cut:
        def __init__(self, whole: Any) -> None:
            self.range, self.meta, self._data = whole.range, whole.meta, whole.bytes().to_bytes()

        def bytes(self) -> Any:
            return obstore.Bytes(self._data[:-1])

    monkeypatch.setattr(obstore, "get", lambda *a, **k: Cut(real(*a, **k)))
    with pytest.raises(GaplessError, match="truncated"):
        store.get("a")
    with pytest.raises(GaplessError, match="truncated"):
        store.get("a", 2, 3)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (obstore.exceptions.AlreadyExistsError("x"), ObjectExists),
        (obstore.exceptions.PreconditionError("x"), ObjectExists),
        (obstore.exceptions.NotFoundError("x"), ObjectNotFound),
        (FileNotFoundError("x"), ObjectNotFound),
        (obstore.exceptions.PermissionDeniedError("x"), AccessDenied),
        (obstore.exceptions.UnauthenticatedError("x"), AccessDenied),
        (obstore.exceptions.NotSupportedError("x"), StoreError),
        (obstore.exceptions.GenericError("Generic S3 error: 503 Service Unavailable"), StoreUnavailable),
        (obstore.exceptions.GenericError("operation timed out"), StoreUnavailable),
        (obstore.exceptions.JoinError("x"), StoreUnavailable),
        (TimeoutError("x"), StoreUnavailable),
        (RuntimeError("x"), StoreUnavailable),
    ],
)
def test_every_exception_has_its_error(error: Exception, expected: type[GaplessError]) -> None:
    found = object_store_error(error, act="writing", path="a", url="s3://b/t")
    assert type(found) is expected
    assert found.path == "a"  # type: ignore[attr-defined] # each of these has a path
    assert found.fix


def test_a_forked_child_is_told_to_spawn_at_once(s3_options: S3) -> None:
    store = open_store(*s3_options)
    store.put("a", b"x")

    def act() -> None:
        start = time.monotonic()
        for call in (lambda: store.get("a"), lambda: store.put("b", b""), lambda: store.head("a"), lambda: store.delete("a"), lambda: list(store.list())):  # fmt: skip
            with pytest.raises(StoreError, match="spawn") as caught:
                call()
            assert type(caught.value) is StoreError
        assert time.monotonic() - start < 5

    assert in_child(act) == 0
    assert [info.path for info in store.list()] == ["a"]


def test_a_forked_child_does_not_wait_for_what_its_parent_sends() -> None:
    """A hint that is on its way: the thread that sends it is not in the child, and would never come back."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = open_store("s3://b/t", {**NOWHERE, "endpoint": endpoint, "max_retries": "0", "retry_timeout": "1"})
        store.put("CURRENT", b"1", mode="overwrite", durable=False)
        assert isinstance(store, DefersWrites)
        store.put_deferred("data/1", b"x")

        def act() -> None:
            signal.alarm(20)
            calls: list[Callable[[], object]] = [
                lambda: store.get("CURRENT"), lambda: store.head("data/1"), lambda: store.delete("data/1"), lambda: list(store.list()),
                lambda: store.settle(["data/1"]), lambda: store.put_after("log/1", b"x", ["data/1"]),
            ]  # fmt: skip
            for call in calls:
                with pytest.raises(StoreError, match="spawn"):
                    call()
            store.forget(["data/1"])

        assert in_child(act) == 0
    store.forget(["data/1"])


def test_a_store_travels_to_a_spawned_process(s3_options: S3) -> None:
    store = open_store(*s3_options)
    store.put("a", b"x")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.get("a") == b"x"
    assert copy.url == store.url


def test_a_repr_shows_no_secret() -> None:
    store = open_store(f"s3://b/{uuid.uuid4()}", NOWHERE)
    assert "very secret" not in repr(store)
