"""The probe accepts stores that keep the promise and refuses those that do not."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gapless.errors import ObjectExists, StoreError
from gapless.store.memory import MemoryStore
from gapless.store.open import open_store
from gapless.store.probe import probe_put_if_absent


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
