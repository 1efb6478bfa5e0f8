"""The part of the store contract that is about reading."""

from __future__ import annotations

import pytest

from gapless.errors import CorruptTable, InvalidOption, ObjectNotFound
from gapless.model.protocols import Store
from gapless.testing.store_case import DIGITS, StoreCase, paths_in


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
