"""The probe accepts stores that keep the promise and refuses those that do not."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import AccessDenied, ObjectExists, StoreError
from gapless.model.protocols import Capabilities
from gapless.store.local.store import LocalStore
from gapless.store.memory import MemoryStore
from gapless.store.open import open_store, probe_put_if_absent, probe_put_if_match
from gapless.tables.timeseries.table import TimeSeriesTable
from support.faulty_store import FaultyStore, once, open_faulty, unavailable


class Counting(MemoryStore):
    """Notes the puts; `replaces` says what a second create does."""

    def __init__(self, replaces: str = "") -> None:
        super().__init__(uuid.uuid4().hex)
        self.puts: list[str] = []
        self.replaces = replaces

    def put(self, path: str, data: bytes | memoryview, **options: Any) -> None:
        self.puts.append(path)
        try:
            super().put(path, data, **options)
        except ObjectExists:
            if self.replaces:
                super().put(path, data, mode="overwrite")
            if self.replaces != "and says so":
                raise


def test_a_good_store_is_probed_once_and_left_clean() -> None:
    store = Counting()
    probe_put_if_absent(store)
    assert len(store.puts) == 2
    assert list(store.list()) == []
    probe_put_if_absent(store)
    assert len(store.puts) == 2


@pytest.mark.parametrize("replaces", ["and says so", "and denies it"])
def test_a_store_that_replaces_is_refused_each_time(replaces: str) -> None:
    store = Counting(replaces)
    for _ in range(2):
        with pytest.raises(StoreError, match="conditional_put"):
            probe_put_if_absent(store)
    assert list(store.list()) == []


def test_s3_passes(s3_options: tuple[str, dict[str, str]]) -> None:
    store = open_store(*s3_options)
    probe_put_if_absent(store)
    assert list(store.list()) == []


def _reopened(url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[TimeSeriesTable, FaultyStore]:
    """The table as another process finds it: nothing is known of its store."""
    monkeypatch.setattr("gapless.store.open._KEPT", set())
    return open_faulty(url)


def _table(monkeypatch: pytest.MonkeyPatch) -> tuple[TimeSeriesTable, FaultyStore]:
    url = f"memory://{uuid.uuid4()}"
    TimeSeriesTable.create(url, index="n", index_type="int64", bucket=1)
    return _reopened(url, monkeypatch)


def _probes(store: FaultyStore) -> list[str]:
    return [path for path in store.puts if path.startswith("_staged/probe-")]


def test_opening_and_reading_do_not_probe_and_the_first_append_does(monkeypatch: pytest.MonkeyPatch) -> None:
    table, store = _table(monkeypatch)
    table.scan().to_arrow()
    table.coverage(0, 9)
    table.verify(deep=True)
    assert store.puts == []
    table.append([{"n": 1}])
    assert len(_probes(store)) == 2
    table.append([{"n": 2}])
    assert len(_probes(store)) == 2
    assert list(store.list("_staged")) == []


def test_an_append_to_a_store_that_lets_two_win_is_refused_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    table, store = _table(monkeypatch)
    store.before_put = lambda path: store.inner.delete(path) if path.startswith("_staged/probe-") else None
    with pytest.raises(StoreError, match="let a second create replace") as caught:
        table.append([{"n": 1}])
    assert "conditional_put" in caught.value.fix
    assert [path for path in store.puts if path not in _probes(store)] == []


def test_a_probe_without_an_answer_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table, store = _table(monkeypatch)
    store.before_put = once(lambda: unavailable("probe"), lambda path: path.startswith("_staged/"))
    assert table.append([{"n": 1}]).rows == 1
    assert len(_probes(store)) == 1
    assert table.append([{"n": 2}]).rows == 1
    assert len(_probes(store)) == 3


def test_an_operation_that_was_applied_needs_no_right_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    table, store = _table(monkeypatch)
    table.append([{"n": 1}], operation_id="job")
    table, store = _reopened(table.url, monkeypatch)

    def deny(path: str) -> None:
        raise AccessDenied("read-only", path=path)

    store.before_put = store.before_delete = deny
    assert table.append([{"n": 1}], operation_id="job").already_applied
    assert store.puts == []
    with pytest.raises(AccessDenied):
        table.append([{"n": 2}])


class Forgetful(MemoryStore):
    """Replaces whatever is there, as a proxy does that drops If-Match."""

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        self.put(path, data, mode="overwrite")
        return self.get_tagged(path).etag


class WithoutReplace(MemoryStore):
    """Declares that it has no conditional replace."""

    capabilities = Capabilities(put_if_absent=True, durable=False, survives_fork=True)


def test_a_store_that_replaces_only_what_it_was_told_passes(s3_options: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    for store in (MemoryStore(uuid.uuid4().hex), LocalStore(tmp_path), open_store(*s3_options)):
        assert probe_put_if_match(store) is store
        assert list(store.list()) == []


@pytest.mark.parametrize(("kind", "why"), [(Forgetful, "If-Match"), (WithoutReplace, "put_if_match=False")])
def test_a_store_whose_replace_is_not_conditional_is_refused_each_time(kind: type[MemoryStore], why: str) -> None:
    store = kind(uuid.uuid4().hex)
    for _ in range(2):
        with pytest.raises(StoreError, match=why):
            probe_put_if_match(store)
    assert list(store.list()) == []
