"""How the pages of an HTTP service follow each other, and which of these ways can be gone again. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gapless.errors import DuplicateKey, InvalidOption, UnreadableInput, shorten

Mark = str | int | None
"""What names a page, as a cursor holds it; None for the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer of the service."""

    body: object
    """JSON."""
    records: Sequence[Any]
    next_link: str | None = None
    """What its `Link` header names as the next page."""


class Pagination(ABC):
    """How to ask for a page, and which one follows."""

    replays: ClassVar[bool]
    """Whether a page that is asked for again, later, has the same rows: only what is named by a token or a value of the rows has."""

    ends_with_404: ClassVar[bool] = False
    """Whether services may say of the page behind the last one that it is not there."""

    @abstractmethod
    def first(self, start: object) -> Mark:
        """The page to begin with; raises InvalidOption for a start that it does not have."""

    @abstractmethod
    def parameters(self, mark: Mark) -> Mapping[str, str]:
        """What is added to the query to ask for a page."""

    @abstractmethod
    def following(self, mark: Mark, page: Page) -> Mark:
        """The page after this one, of which the service has, or may have, rows; None where there is none now."""

    def link(self, mark: Mark) -> str | None:  # noqa: ARG002 - most name no page by its URL
        """The URL of a page, where that is what names it."""
        return None

    def place(self, mark: Mark, taken: Sequence[Any]) -> tuple[Mark, int]:
        """The page and its row to go on at when so many of its rows were taken."""
        return mark, len(taken)

    def ends(self, mark: Mark, page: Page) -> Mark:
        """The page to go on at when all rows were taken; None to ask for this one again, which may still grow."""
        return self.following(mark, page)

    def check(self, mark: Mark, page: Page, source: str) -> None:  # noqa: B027 - most take them as they come
        """Raise where rows are not those that were asked for."""


def _no_start(start: object) -> Mark:
    if start not in (None, "earliest"):
        raise InvalidOption(
            f"start={start!r} is no place among pages that are followed from the first",
            fix="Leave it out, or pass pagination=AfterValue(…) or PageToken(…)",
            option="start",
            value=start,
        )
    return None


@dataclass(frozen=True, slots=True)
class SinglePage(Pagination):
    """There is one page."""

    replays = False

    def first(self, start: object) -> Mark:
        """See `Pagination.first`."""
        return _no_start(start)

    def parameters(self, mark: Mark) -> Mapping[str, str]:  # noqa: ARG002 - there is one
        """None."""
        return {}

    def following(self, mark: Mark, page: Page) -> Mark:  # noqa: ARG002 - there is one
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class LinkHeader(Pagination):
    """Each page's `Link` header names the next one (`rel="next"`)."""

    replays = False

    def first(self, start: object) -> Mark:
        """See `Pagination.first`."""
        return _no_start(start)

    def parameters(self, mark: Mark) -> Mapping[str, str]:  # noqa: ARG002 - the link has them
        """None: the link has them."""
        return {}

    def link(self, mark: Mark) -> str | None:
        """The page itself."""
        return None if mark is None else str(mark)

    def following(self, mark: Mark, page: Page) -> Mark:  # noqa: ARG002 - the page says it
        """See `Pagination.following`."""
        return page.next_link


@dataclass(frozen=True, slots=True)
class NextLink(LinkHeader):
    """Each page names the next one by its URL, at a path of its JSON such as "links.next"."""

    path: str = "next"

    def following(self, mark: Mark, page: Page) -> Mark:  # noqa: ARG002 - the page says it
        """See `Pagination.following`."""
        found = at_path(page.body, self.path)
        return str(found) if found else None


@dataclass(frozen=True, slots=True)
class PageNumber(Pagination):
    """Pages are counted. The one behind the last has no rows, or is not there (404)."""

    parameter: str = "page"
    number: int = 1
    """Of the first page."""
    replays = False
    ends_with_404 = True

    def first(self, start: object) -> Mark:
        """See `Pagination.first`."""
        _no_start(start)
        return self.number

    def parameters(self, mark: Mark) -> Mapping[str, str]:
        """Its number."""
        return {self.parameter: str(mark)}

    def following(self, mark: Mark, page: Page) -> Mark:
        """See `Pagination.following`."""
        return int(mark or 0) + 1 if page.records else None

    def ends(self, mark: Mark, page: Page) -> Mark:  # noqa: ARG002 - whatever it held
        """None: whether the page is full is not known."""
        return None


@dataclass(frozen=True, slots=True)
class Offset(Pagination):
    """Rows are counted."""

    parameter: str = "offset"
    limit_parameter: str = "limit"
    limit: int = 100
    replays = False

    def first(self, start: object) -> Mark:
        """See `Pagination.first`."""
        _no_start(start)
        return 0

    def parameters(self, mark: Mark) -> Mapping[str, str]:
        """The first row's number, and how many."""
        return {self.parameter: str(mark), self.limit_parameter: str(self.limit)}

    def following(self, mark: Mark, page: Page) -> Mark:
        """See `Pagination.following`."""
        return int(mark or 0) + len(page.records) if page.records else None


@dataclass(frozen=True, slots=True)
class PageToken(Pagination):
    """Each page has the token of the next one, at a path of its JSON; the service answers a token again with the same rows."""

    parameter: str
    path: str
    replays = True

    def first(self, start: object) -> Mark:
        """`start` is the token to begin with."""
        return None if start in (None, "earliest") else str(start)

    def parameters(self, mark: Mark) -> Mapping[str, str]:
        """The token."""
        return {} if mark is None else {self.parameter: str(mark)}

    def following(self, mark: Mark, page: Page) -> Mark:  # noqa: ARG002 - the page says it
        """See `Pagination.following`."""
        found = at_path(page.body, self.path)
        return found if isinstance(found, str | int) and not isinstance(found, bool) and found != "" else None


@dataclass(frozen=True, slots=True)
class AfterValue(Pagination):
    """The service gives the rows whose `column` comes after a value, in its order. No two rows have one value."""

    parameter: str
    column: str
    replays = True

    def first(self, start: object) -> Mark:
        """`start` is the value to begin after."""
        return None if start in (None, "earliest") else _value(start, "start", "start=")

    def parameters(self, mark: Mark) -> Mapping[str, str]:
        """The value."""
        return {} if mark is None else {self.parameter: str(mark)}

    def place(self, mark: Mark, taken: Sequence[Any]) -> tuple[Mark, int]:
        """See `Pagination.place`."""
        return (taken[-1][self.column], 0) if taken else (mark, 0)

    def following(self, mark: Mark, page: Page) -> Mark:
        """See `Pagination.following`."""
        return self.place(mark, page.records)[0] if page.records else None

    def check(self, mark: Mark, page: Page, source: str) -> None:
        """Raises DuplicateKey, UnreadableInput for rows out of order or without a value."""
        before: Any = mark
        for record in page.records:
            value: Any = _value(record.get(self.column) if isinstance(record, Mapping) else None, self.column, source)
            if value == before:
                raise DuplicateKey(
                    f"{source} gave {self.column}={value!r} after {before!r}",
                    why="Rows were asked for that come after that value: it is not unique, or the service does not heed the parameter",
                    fix=f"Go by a column that is unique, and check that {self.parameter!r} is the parameter's name",
                    columns=(self.column,),
                    keys=((value,),),
                )
            if type(value) is int and type(before) is int and value < before:
                raise UnreadableInput(
                    f"{source} gave {self.column}={value!r} after {before!r}",
                    why="Its rows do not come in the order of the column, so that some would be passed over",
                    fix="Ask for that order in params=, such as params={'sort': 'id'}",
                    source=source,
                )
            before = value


def _value(value: object, column: str, source: str) -> Mark:
    if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        return value
    raise UnreadableInput(
        f"{column!r} is {shorten(value)} in a row of {source}",
        why="The value that rows are asked for after is a text or a whole number, in each of them",
        fix="Go by another column",
        source=source,
    )


def at_path(body: object, path: str) -> object:
    """What lies at a dotted path of JSON; None where nothing does.

    >>> at_path({"data": {"items": [1]}}, "data.items")
    [1]
    """
    found = body
    for name in path.split(".") if path else ():
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
