"""The contract of a store, as a test class: subclass it and get the whole suite.

```python
import pytest
from gapless.testing.store.contract import StoreContract

class TestMyStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):            # whatever the store needs; pytest makes a new instance for each test
        self.root = tmp_path / "table"

    def make_store(self):
        return MyStore(self.root)
```

Within one test every call of `make_store` must give a new handle on the same place, which is empty when the test starts.
Where the store declares that it cannot do something (`Store.capabilities`), the tests of that are skipped.

Its parts here: objects that are deferred of one that names them, the conditional replace, and what every store does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import pytest

from gapless.errors import GaplessError, InvalidPath, ObjectChanged, ObjectExists, ObjectNotFound, StoreError
from gapless.model.protocols import DefersWrites, ReplacesIfMatch, Store, TaggedObject, defers_writes, replaces_if_match
from gapless.testing.store.case import DIGITS, ListingContract, ReadingContract, StoreCase, in_child, paths_in, race


class AheadContract(StoreCase):
    """What a store keeps that is a `DefersWrites`; skipped for others."""

    @pytest.fixture
    def deferred(self, store: Store) -> DefersWrites:
        """The store, as one that defers writes."""
        if not defers_writes(store):
            pytest.skip("the store defers nothing")
        return store

    def test_what_was_put_ahead_is_there_with_what_follows_it(self, store: Store, deferred: DefersWrites) -> None:
        """This handle reads it at once; another sees it with the object that was put after it."""
        deferred.put_deferred("data/1", b"on", b"e")
        deferred.put_deferred("data/2", memoryview(b"two"))
        assert store.get("data/1") == b"one"
        assert store.head("data/2").size == 3
        assert paths_in(store, "data") == ["data/1", "data/2"]
        deferred.put_after("log/1", b"names them", ["data/1", "data/2", "data/not deferred"])
        other = self.make_store()
        assert [other.get(path) for path in paths_in(other)] == [b"one", b"two", b"names them"]

    def test_a_create_after_others_is_exclusive(self, store: Store, deferred: DefersWrites) -> None:
        """It replaces nothing, and what was deferred can go with the next try."""
        self.make_store().put("log/1", b"theirs")
        deferred.put_deferred("data/1", b"one")
        with pytest.raises(ObjectExists):
            deferred.put_after("log/1", b"ours", ["data/1"])
        assert store.get("log/1") == b"theirs"
        deferred.put_after("log/2", b"ours", ["data/1"])
        assert paths_in(self.make_store()) == ["data/1", "log/1", "log/2"]

    def test_what_was_put_ahead_can_be_settled_or_taken_back(self, store: Store, deferred: DefersWrites) -> None:
        """`settle` makes it stay without anything after it; `delete` removes it for good."""
        for number in range(40):
            deferred.put_deferred(f"data/{number:02}", b"x")
        for number in range(20, 40):
            store.delete(f"data/{number:02}")
        deferred.settle([f"data/{number:02}" for number in range(40)])
        assert paths_in(self.make_store()) == [f"data/{number:02}" for number in range(20)]

    def test_what_was_given_up_can_be_deleted(self, store: Store, deferred: DefersWrites) -> None:
        """`forget` lets go of it, and a `delete` after it is the last word."""
        deferred.put_deferred("data/1", b"x")
        deferred.forget(["data/1", "data/not deferred"])
        store.delete("data/1")
        deferred.settle(["data/1"])
        assert paths_in(self.make_store()) == []


class ReplaceContract(StoreCase):
    """What a store keeps that is a `ReplacesIfMatch`; skipped for others."""

    @pytest.fixture
    def replacing(self, store: Store) -> ReplacesIfMatch:
        """The store, as one with a conditional replace."""
        if not replaces_if_match(store):
            pytest.skip("the store declares put_if_match=False")
        return store

    def test_a_state_is_replaced_by_who_read_it(self, replacing: ReplacesIfMatch) -> None:
        """The new state is there whole, and its etag is the one that was given back."""
        replacing.put("lease", b"first")
        tagged = replacing.get_tagged("lease")
        assert tagged.data == b"first"
        etag = replacing.put_if_match("lease", memoryview(b"second, longer"), tagged.etag)
        other = self.make_store()
        assert other.get("lease") == b"second, longer"
        assert replaces_if_match(other)
        assert other.get_tagged("lease") == TaggedObject(data=b"second, longer", etag=etag)
        assert other.get_tagged("lease").etag != tagged.etag
        other.put_if_match("lease", b"", etag)
        assert replacing.get_tagged("lease").data == b""
        assert paths_in(replacing) == ["lease"]

    def test_another_state_is_not_replaced(self, replacing: ReplacesIfMatch) -> None:
        """One that was replaced, overwritten, removed or never there: refused, and nothing is stored."""
        replacing.put("lease", b"first")
        first = replacing.get_tagged("lease").etag
        second = replacing.put_if_match("lease", b"second", first)
        replacing.put("lease", b"third", mode="overwrite")
        for etag in (first, second):
            with pytest.raises(ObjectChanged) as caught:
                replacing.put_if_match("lease", b"late", etag)
            assert caught.value.path == "lease"
        assert replacing.get("lease") == b"third"
        third = replacing.get_tagged("lease").etag
        replacing.delete("lease")
        for path in ("lease", "folder/never there"):
            with pytest.raises(ObjectChanged):
                replacing.put_if_match(path, b"late", third)
        assert paths_in(replacing) == []
        with pytest.raises(ObjectNotFound):
            replacing.get_tagged("lease")

    def test_racing_replaces(self, replacing: ReplacesIfMatch) -> None:
        """Eight that count up together, ten times each and each time from what they read, lose no count."""
        replacing.put("count", b"0")
        handles = [self.make_store() for _ in range(8)]
        race(ObjectExists, [_count_up(handle, "count", 10) for handle in handles])
        assert replacing.get("count") == b"80"
        assert paths_in(replacing) == ["count"]


def _count_up(store: Store, path: str, times: int) -> Callable[[], None]:
    def run() -> None:
        assert replaces_if_match(store)
        left = times
        while left:
            tagged = store.get_tagged(path)
            with contextlib.suppress(ObjectChanged):
                store.put_if_match(path, str(int(tagged.data) + 1).encode(), tagged.etag)
                left -= 1

    return run


class StoreContract(ReadingContract, ListingContract, AheadContract, ReplaceContract):
    """What every Store keeps; see the module for how to use it."""

    def test_put_then_get_gives_the_bytes(self, store: Store) -> None:
        """What was stored comes back, also through another handle."""
        store.put("a/b", b"\x00\xffdata")
        assert store.get("a/b") == b"\x00\xffdata"
        assert self.make_store().get("a/b") == b"\x00\xffdata"

    @pytest.mark.parametrize("data", [memoryview(DIGITS), memoryview(DIGITS).cast("b"), memoryview(bytearray(DIGITS)), memoryview(b"")])  # fmt: skip
    def test_put_takes_any_buffer(self, store: Store, data: memoryview) -> None:
        """Buffers as Arrow hands them out are stored too."""
        store.put("a", data)
        assert store.get("a") == data.tobytes()

    def test_put_keeps_its_own_copy(self, store: Store) -> None:
        """Changing a buffer after the put changes nothing."""
        buffer = bytearray(DIGITS)
        store.put("a", memoryview(buffer))
        buffer[0] = 0
        assert store.get("a") == DIGITS

    def test_empty_object(self, store: Store) -> None:
        """An object may hold nothing, and is there nevertheless."""
        store.put("a/empty", b"")
        assert store.get("a/empty") == b""
        assert store.get("a/empty", 0, 0) == b""
        assert store.head("a/empty").size == 0
        assert paths_in(store, "a") == ["a/empty"]
        with pytest.raises(ObjectExists):
            store.put("a/empty", b"x")

    def test_big_object(self, store: Store) -> None:
        """8 MiB come back whole and in ranges, whatever parts they travel in."""
        data = bytes(range(256)) * (8 << 12)
        store.put("big", data)
        assert store.get("big") == data
        assert store.get("big", len(data) - 5) == data[-5:]
        assert store.get("big", 5 << 20, 3) == data[5 << 20 : (5 << 20) + 3]
        assert store.head("big").size == len(data)

    def test_create_twice(self, store: Store) -> None:
        """The second create is refused, with the same bytes too, and changes nothing."""
        store.put("log/1", b"first")
        for data in (b"second", b"first", b""):
            with pytest.raises(ObjectExists) as caught:
                self.make_store().put("log/1", data)
            assert caught.value.path == "log/1"
        assert store.get("log/1") == b"first"
        assert paths_in(store) == ["log/1"]

    def test_overwrite(self, store: Store) -> None:
        """Replaces, whether longer or shorter, and creates where there is nothing."""
        for data in (b"1", b"22222", b"", b"3"):
            store.put("hint", data, mode="overwrite", durable=False)
            assert store.get("hint") == data
            assert store.head("hint").size == len(data)
        assert paths_in(store) == ["hint"]

    def test_racing_creates(self, store: Store) -> None:
        """Of eight that create one object at once, one wins, and its bytes are there whole; ten rounds."""
        if not store.capabilities.put_if_absent:
            pytest.skip("the store declares put_if_absent=False")
        handles = [self.make_store() for _ in range(8)]
        for turn in range(10):
            path = f"log/{turn}.json"
            won = race(ObjectExists, [_put(handle, path, bytes([65 + n]) * 100_000) for n, handle in enumerate(handles)])
            assert len(won) == 1, f"round {turn}: {won} won"
            assert store.get(path) == bytes([65 + won[0]]) * 100_000
        assert len(paths_in(store)) == 10

    def test_readers_see_whole_objects(self, store: Store) -> None:
        """While an object is replaced again and again, each read gives one of its states whole."""
        states = [bytes([65 + n]) * (40_000 + n) for n in range(4)]
        store.put("hint", states[0], mode="overwrite")
        reader = self.make_store()
        seen: list[bytes] = []

        def write() -> None:
            for turn in range(40):
                store.put("hint", states[turn % 4], mode="overwrite", durable=False)

        race(ObjectExists, [write, lambda: seen.extend(reader.get("hint") for _ in range(100))])
        assert len(seen) == 100
        assert set(seen) <= set(states)

    def test_delete(self, store: Store) -> None:
        """Removes the one object, whose name is then free."""
        store.put("a/b", b"1")
        store.put("a/bc", b"2")
        store.delete("a/b")
        assert paths_in(store) == ["a/bc"]
        with pytest.raises(ObjectNotFound):
            store.get("a/b")
        store.delete("a/b")
        store.put("a/b", b"3")
        assert store.get("a/b") == b"3"

    def test_head(self, store: Store) -> None:
        """Path, size and a time that agrees with the listing's to the second."""
        store.put("a/b", DIGITS)
        head, (listed,) = store.head("a/b"), list(store.list())
        assert (head.path, head.size) == (listed.path, listed.size) == ("a/b", 10)
        assert abs(head.modified_ns - listed.modified_ns) <= 1_000_000_000
        assert listed.modified_ns > 1_600_000_000 * 10**9

    @pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "./a", "a/./b", "a\0b"])
    def test_path_that_names_no_object(self, store: Store, path: str) -> None:
        """Nothing outside the store can be reached, and nothing has two names."""
        calls: list[Callable[[], object]] = [
            lambda: store.put(path, b""), lambda: store.get(path), lambda: store.head(path), lambda: store.delete(path),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(InvalidPath):
                call()
        assert paths_in(store) == []

    def test_errors_are_told_in_three_parts(self, store: Store) -> None:
        """What happened, why, and what to do."""
        store.put("a", b"")
        calls: list[Callable[[], object]] = [lambda: store.get("b"), lambda: store.put("a", b""), lambda: store.get("a", 1), lambda: store.get("")]  # fmt: skip
        for call in calls:
            with pytest.raises(GaplessError) as caught:
                call()
            assert caught.value.what
            assert caught.value.why
            assert caught.value.fix

    def test_local_path(self, store: Store) -> None:
        """Where an object is a file of this machine, its path is absolute and holds the bytes."""
        store.put("data/a b%20", DIGITS)
        path = store.local_path("data/a b%20")
        if path is not None:
            assert os.path.isabs(path)  # noqa: PTH117 - the text itself is asked
            with open(path, "rb") as file:  # noqa: PTH123 - as a native reader opens it
                assert file.read() == DIGITS

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    def test_fork(self, store: Store) -> None:
        """A handle works in a forked child, or says at once that it does not; it never hangs."""
        store.put("before", b"1")
        works = store.capabilities.survives_fork
        assert in_child(lambda: _use(store, works=works)) == 0
        store.put("after", b"2")
        assert store.get("before") == b"1"


def _put(store: Store, path: str, data: bytes) -> Callable[[], None]:
    return lambda: store.put(path, data)


def _use(store: Store, *, works: bool) -> None:
    if works:
        assert store.get("before") == b"1"
        store.put("child", b"3")
        assert paths_in(store) == ["before", "child"]
        return
    calls: list[Callable[[], object]] = [lambda: store.get("before"), lambda: store.put("c", b""), lambda: paths_in(store)]
    for call in calls:
        with pytest.raises(StoreError, match="spawn"):
            call()
