"""What `find` gives: documents of one version, not read yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from gapless.documents.find.sort import Sort, in_order
from gapless.documents.spill.memory import UNBOUNDED, Memory
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Documents of one version, read anew each time they are gone through; `skip` and `limit` give another cursor."""

    read: Read
    """Those that match."""
    shape: Callable[[Document], Document]
    """What is given of each."""
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

    def to_list(self) -> list[Document]:
        """All of them. Raises CorruptTable, StoreError, VersionNotFound where a vacuum took files of the version."""
        return list(self)

    def __iter__(self) -> Iterator[Document]:
        """One by one; raises as `to_list`."""
        end = self.skipped + self.most if self.most else None
        found = in_order(self.read(), self.by, end, self.memory) if self.by else self.read()
        for one in islice(found, self.skipped, end):
            yield self.shape(one)
