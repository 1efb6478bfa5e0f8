"""Memory beyond the contract: its clock, its names, and forks while others hold its lock."""

from __future__ import annotations

import uuid

from gapless.store import memory
from gapless.store.memory import MemoryStore
from gapless.testing.store.case import in_child


def test_the_time_of_a_write_is_its_clocks() -> None:
    store = MemoryStore(uuid.uuid4().hex, now_ns=lambda: 42)
    store.put("a", b"")
    assert store.head("a").modified_ns == 42


def test_names_are_apart() -> None:
    one, other = MemoryStore(uuid.uuid4().hex), MemoryStore(uuid.uuid4().hex)
    one.put("a", b"")
    assert list(other.list()) == []


def test_a_fork_while_the_lock_is_held_does_not_hang() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    store.put("a", b"x")

    def act() -> None:
        assert store.get("a") == b"x"
        store.put("b", b"y")

    with memory._LOCKS[0]:
        assert in_child(act) == 0
    assert [info.path for info in store.list()] == ["a"]


def test_a_listing_shows_the_moment_of_its_call() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    store.put("a", b"")
    listing = store.list()
    store.put("b", b"")
    assert [info.path for info in listing] == ["a"]
