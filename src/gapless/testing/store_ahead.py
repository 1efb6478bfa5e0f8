"""The part of the store contract about objects that are put ahead of one that names them."""

from __future__ import annotations

import pytest

from gapless.errors import ObjectExists
from gapless.model.protocols import Store, StoresAhead, stores_ahead
from gapless.testing.store_case import StoreCase, paths_in


class AheadContract(StoreCase):
    """What a store keeps that is a `StoresAhead`; skipped for others."""

    @pytest.fixture
    def ahead(self, store: Store) -> StoresAhead:
        """The store, as one that stores ahead."""
        if not stores_ahead(store):
            pytest.skip("the store puts nothing ahead")
        return store

    def test_what_was_put_ahead_is_there_with_what_follows_it(self, store: Store, ahead: StoresAhead) -> None:
        """This handle reads it at once; another sees it with the object that was put after it."""
        ahead.put_ahead("data/1", b"on", b"e")
        ahead.put_ahead("data/2", memoryview(b"two"))
        assert store.get("data/1") == b"one"
        assert store.head("data/2").size == 3
        assert paths_in(store, "data") == ["data/1", "data/2"]
        ahead.put_after("log/1", b"names them", ["data/1", "data/2", "data/not put ahead"])
        other = self.make_store()
        assert [other.get(path) for path in paths_in(other)] == [b"one", b"two", b"names them"]

    def test_a_create_after_others_is_exclusive(self, store: Store, ahead: StoresAhead) -> None:
        """It replaces nothing, and what was put ahead can go with the next try."""
        self.make_store().put("log/1", b"theirs")
        ahead.put_ahead("data/1", b"one")
        with pytest.raises(ObjectExists):
            ahead.put_after("log/1", b"ours", ["data/1"])
        assert store.get("log/1") == b"theirs"
        ahead.put_after("log/2", b"ours", ["data/1"])
        assert paths_in(self.make_store()) == ["data/1", "log/1", "log/2"]

    def test_what_was_put_ahead_can_be_settled_or_taken_back(self, store: Store, ahead: StoresAhead) -> None:
        """`settle` makes it stay without anything after it; `delete` removes it for good."""
        for number in range(40):
            ahead.put_ahead(f"data/{number:02}", b"x")
        for number in range(20, 40):
            store.delete(f"data/{number:02}")
        ahead.settle([f"data/{number:02}" for number in range(40)])
        assert paths_in(self.make_store()) == [f"data/{number:02}" for number in range(20)]

    def test_what_was_given_up_can_be_deleted(self, store: Store, ahead: StoresAhead) -> None:
        """`forget` lets go of it, and a `delete` after it is the last word."""
        ahead.put_ahead("data/1", b"x")
        ahead.forget(["data/1", "data/not put ahead"])
        store.delete("data/1")
        ahead.settle(["data/1"])
        assert paths_in(self.make_store()) == []
