"""Parts of the store contract: names, listings and reads; races between threads, and an act in a forked child."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence

import pytest

from gapless.errors import CorruptTable, InvalidOption, InvalidPath, ObjectNotFound
from gapless.model.protocols import Store

DIGITS = b"0123456789"


class StoreCase:
    """A test class over stores: its subclass says how one is made."""

    def make_store(self) -> Store:
        """A new handle on this test's place, which is empty when the test starts."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Store:
        """The handle that a test works with."""
        return self.make_store()


def paths_in(store: Store, prefix: str = "", after: str = "") -> list[str]:
    """The paths that a listing gives, in its order."""
    return [info.path for info in store.list(prefix, after)]


ODD_NAMES = (
    "a b", " a ", "a%20b", "a%", "100%25", "a#b", "a?b=c&d", "a*b", "a[b]", "a{b}", "a~", "~", "a'b", 'a"b', "a\\b", "a:b", "C:",
    "a|b", "<a>", "a+b", "a=b", "a;b", "a,b", "a@b", "a!b$", "a^b`", "...", "a.", ".hidden", "x.tmp", "CON", "-rf", "\u00e9", "e\u0301", "日本",
    "😈", "\u00a0", "K=__HIVE_DEFAULT_PARTITION__", "n" * 200,
)  # fmt: skip
"""Names that a path part may have and that some store, shell or URL gets wrong."""


class ListingContract(StoreCase):
    """Listings are complete, in order, and tell names apart."""

    def test_list_is_in_path_order(self, store: Store) -> None:
        """In order of the whole path by code point, folders or not."""
        paths = [
            "a", "b/x/y", "b-c", "b.c", "b0", "b c", "data/z", "data2/a", "\u00e4/x", "Z", "0", "b/y/1", "b/y-1", "b/10", "b/9", "😈", "\uffee",
        ]  # fmt: skip
        for path in reversed(paths):
            store.put(path, path.encode())
        assert paths_in(store) == sorted(paths)
        assert {info.path: info.size for info in store.list()} == {path: len(path.encode()) for path in paths}

    def test_list_prefix_is_a_folder(self, store: Store) -> None:
        """A prefix is a whole part of the path, with or without a slash at its end; a file is no folder."""
        for path in ("data/a", "data/b/c", "data2/a", "dat", "data.txt", "other/data/a"):
            store.put(path, b"")
        assert paths_in(store, "data") == paths_in(store, "data/") == ["data/a", "data/b/c"]
        assert paths_in(store, "data/b") == ["data/b/c"]
        assert paths_in(store, "da") == paths_in(store, "dat") == paths_in(store, "data/a") == []

    def test_list_after(self, store: Store) -> None:
        """Only paths past `after`, which need not be there and need not lie in the folder."""
        paths = ["log/01", "log/02", "log/03-x", "log/03/deep", "log/04", "m/1"]
        for path in paths:
            store.put(path, b"")
        for after in (*paths, "", "log/00", "log/03", "log/03/", "log/99", "a", "z", "log", "log/"):
            assert paths_in(store, "", after) == [p for p in paths if p > after]
            assert paths_in(store, "log", after) == [p for p in paths if p > after and p.startswith("log/")]

    def test_list_of_more_than_one_page(self, store: Store) -> None:
        """Services list 1,000 at a time; none is lost or doubled at the seam."""
        paths = [f"p/{n:05}" for n in range(1005)]
        for path in paths:
            store.put(path, b"", durable=False)
        assert paths_in(store) == paths
        assert paths_in(store, "p", paths[2]) == paths[3:]

    def test_any_name(self, store: Store) -> None:
        """Any character but NUL and control characters, as a file and as a folder; none stands for another."""
        paths = sorted({f"{kind}/{name}{rest}" for name in ODD_NAMES for kind, rest in (("file", ""), ("folder", "/x"))})
        for path in paths:
            store.put(path, path.encode())
        assert paths_in(store) == paths
        for path in paths:
            assert store.get(path) == path.encode()
            assert store.head(path).size == len(path.encode())
        for name in ODD_NAMES:
            assert paths_in(store, f"folder/{name}") == [f"folder/{name}/x"]
        for path in paths:
            store.delete(path)
        assert paths_in(store) == []

    def test_unfinished_writes_are_no_objects(self, store: Store) -> None:
        """Their names cannot be taken."""
        with pytest.raises(InvalidPath):
            store.put("data/.x.tmp", b"")
        assert paths_in(store) == []


class ReadingContract(StoreCase):
    """A read gives all that was asked for, or says what is missing."""

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, None, DIGITS), (0, 10, DIGITS), (0, 1, b"0"), (3, 2, b"34"), (9, 1, b"9"), (4, None, b"456789"),
            (10, None, b""), (10, 0, b""), (0, 0, b""), (5, 0, b""),
            (-3, None, b"789"), (-3, 2, b"78"), (-3, 3, b"789"), (-10, None, DIGITS), (-10, 4, b"0123"), (-1, 0, b""),
        ],
    )  # fmt: skip
    def test_ranges_are_half_open(self, store: Store, start: int, length: int | None, expected: bytes) -> None:
        """`[start, start + length)`; without length to the end; a negative start counts from the end."""
        store.put("digits", DIGITS)
        assert store.get("digits", start, length) == expected

    @pytest.mark.parametrize(
        ("start", "length"),
        [(0, 11), (5, 6), (9, 2), (10, 1), (11, None), (11, 0), (99, 1), (-11, None), (-11, 3), (-3, 4), (-1, 2)],
    )
    def test_range_that_is_not_all_there(self, store: Store, start: int, length: int | None) -> None:
        """Fewer bytes than asked for are never given back."""
        store.put("digits", DIGITS)
        with pytest.raises(CorruptTable, match="truncated") as caught:
            store.get("digits", start, length)
        assert caught.value.path == "digits"

    def test_range_of_an_empty_object(self, store: Store) -> None:
        """Nothing is all there is."""
        store.put("empty", b"")
        for start, length in ((0, 1), (1, None), (-1, None), (-1, 1)):
            with pytest.raises(CorruptTable):
                store.get("empty", start, length)

    def test_negative_length_is_refused(self, store: Store) -> None:
        """A length counts."""
        store.put("digits", DIGITS)
        with pytest.raises(InvalidOption):
            store.get("digits", 0, -1)

    @pytest.mark.parametrize("path", ["nothing", "a/nothing", "a/b/c", "a"])
    def test_not_found(self, store: Store, path: str) -> None:
        """Nothing, a part of a path and a path below an object are no objects; deleting them is no error."""
        store.put("a/b", b"x")
        with pytest.raises(ObjectNotFound) as caught:
            store.get(path)
        assert caught.value.path == path
        with pytest.raises(ObjectNotFound):
            store.get(path, 1, 2)
        with pytest.raises(ObjectNotFound):
            store.get(path, -2)
        with pytest.raises(ObjectNotFound):
            store.get(path, 0, 0)
        with pytest.raises(ObjectNotFound):
            store.head(path)
        store.delete(path)
        assert store.get("a/b") == b"x"

    def test_nothing_is_in_an_empty_store(self, store: Store) -> None:
        """A place that does not exist yet can be asked."""
        assert paths_in(store) == []
        assert paths_in(store, "data") == []
        with pytest.raises(ObjectNotFound):
            store.get("a")
        store.delete("a")


_CHILD_LIMIT_S = 30


def race(lost: type[BaseException], calls: Sequence[Callable[[], object]]) -> list[int]:
    """Start all calls at once, each in a thread; the numbers of those that did not raise `lost`, in the order they ended.

    Raises the first other error.
    """
    barrier = threading.Barrier(len(calls))
    won: list[int] = []
    failed: list[BaseException] = []

    def run(number: int, call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
        except lost:
            return
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(error)
        else:
            won.append(number)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return won


def in_child(act: Callable[[], object]) -> int:
    """Run `act` in a forked child for at most 30 s; its wait status: 0 if it ended well, else a signal or an exit code.

    What it raises is printed by the child on stderr.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads: the point here
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.alarm(_CHILD_LIMIT_S)
    try:
        act()
    except BaseException:  # noqa: BLE001 - a child may end by _exit only
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
