"""The part of the store contract that is about listings and names."""

from __future__ import annotations

import pytest

from gapless.errors import InvalidPath
from gapless.model.protocols import Store
from gapless.testing.store_case import StoreCase, paths_in

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
