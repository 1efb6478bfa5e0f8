"""What `find` gives: documents of one version, not read yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from gapless.documents.collections.unsupported import OF_CURSORS, missing
from gapless.documents.filters.paths import is_array, values_at
from gapless.documents.find.sort import Sort, in_order, parse_sort
from gapless.documents.spill.memory import UNBOUNDED, Memory
from gapless.documents.values.order import MISSING, Key, sort_key
from gapless.errors import InvalidOption

Document = dict[str, Any]
Read = Callable[[], Iterator[Document]]


def count_option(option: str, value: object) -> int:
    """A number of documents. Raises InvalidOption."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidOption(
            f"{option}={value!r} is no number of documents", fix="Pass a whole number from 0 on", option=option, value=value
        )
    return value


def distinct_values(documents: Iterable[Document], key: str) -> list[Any]:
    """The different values at a path, and elements of arrays there, in the order in which they come. Raises InvalidOption."""
    if not all(str(key).split(".")):
        raise InvalidOption(f"key={key!r} is no path", fix='Pass a dotted path, such as "a.b"', option="key", value=key)
    seen: dict[Key, Any] = {}
    for document in documents:
        for value in values_at(document, tuple(key.split(".")), into_arrays=False):
            for one in value if is_array(value) else [value]:
                if one is not MISSING:
                    seen.setdefault(sort_key(one), one)
    return list(seen.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Documents of one version, read anew each time they are gone through; `skip` and `limit` give another cursor."""

    read: Read
    """Those that match."""
    shape: Callable[[Document], Document]
    """What is given of each."""
    first: Callable[[Sort, int], Iterator[Document] | None] | None = None
    """How the first of them in an order are found without a look at all of them; None where there is no way."""
    memory: Memory = UNBOUNDED
    """What sorting may hold."""
    by: Sort = ()
    """The order that is wanted; without one they come as they are read."""
    skipped: int = 0
    most: int = 0
    """0 for all."""

    def skip(self, skip: int) -> Cursor:
        """Leave out so many of the first. Raises InvalidOption."""
        return replace(self, skipped=count_option("skip", skip))

    def limit(self, limit: int) -> Cursor:
        """Give so many at most; 0 for all. Raises InvalidOption."""
        return replace(self, most=count_option("limit", limit))

    def sort(self, key_or_list: object, direction: object = None) -> Cursor:
        """Give them in an order: a path with 1 or -1, or pairs of these; an order that was asked for before is given up. Raises InvalidOption."""
        given = key_or_list if direction is None else [(key_or_list, direction)]
        return replace(self, by=parse_sort(given))

    def distinct(self, key: str) -> list[Any]:
        """The different values at a path among them, and elements of arrays there. Raises as `to_list`, InvalidOption."""
        return distinct_values(self, key)

    def clone(self) -> Cursor:
        """The same: a cursor is gone through as often as one likes."""
        return self

    def rewind(self) -> Cursor:
        """The same."""
        return self

    def close(self) -> None:
        """Nothing is open between two documents that are not asked for."""

    def __getitem__(self, index: int | slice) -> Document | Cursor:
        """One of them by its number, or those of a slice, in the place of `skip` and `limit`. Raises IndexError, InvalidOption, and as `to_list`."""
        if isinstance(index, slice):
            start, stop = index.start or 0, index.stop
            if index.step not in (None, 1):
                raise InvalidOption("a cursor has no steps", fix="Leave the step out", option="index", value=index)
            count_option("index", start)
            most = 0 if stop is None else count_option("index", stop) - start
            if stop is not None and most <= 0:
                raise InvalidOption("a slice of a cursor has documents", fix="Pass [start:stop]", option="index", value=index)
            return replace(self, skipped=start, most=most)
        found = next(iter(replace(self, skipped=self.skipped + count_option("index", index), most=1)), None)
        if found is None:
            raise IndexError(f"there is no document {index}")
        return found

    def __getattr__(self, name: str) -> Any:
        """Raise NotSupported for what pymongo's cursors have, AttributeError for others."""
        raise missing("Cursor", name, OF_CURSORS)

    def to_list(self) -> list[Document]:
        """All of them. Raises CorruptTable, StoreError, VersionNotFound where a vacuum took files of the version."""
        return list(self)

    def _found(self, end: int | None) -> Iterator[Document]:
        if not self.by:
            return self.read()
        first = self.first(self.by, end) if self.first is not None and end is not None else None
        return in_order(self.read(), self.by, end, self.memory) if first is None else first

    def __iter__(self) -> Iterator[Document]:
        """One by one; raises as `to_list`."""
        end = self.skipped + self.most if self.most else None
        for one in islice(self._found(end), self.skipped, end):
            yield self.shape(one)
