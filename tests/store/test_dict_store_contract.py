"""The store behind the simulator keeps the contract of stores."""

from __future__ import annotations

import pytest

from gapless.model.protocols import Store
from gapless.testing.store.contract import StoreContract
from gapless.testing.store.stores import DictStore


class TestDictStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.one = DictStore()

    def make_store(self) -> Store:
        return self.one
