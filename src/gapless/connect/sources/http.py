"""A source of the records of an HTTP service, page by page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.connect.sources.http_pages import Mark, Page, Pagination, SinglePage, at_path
from gapless.connect.sources.http_service import HttpService, check_request
from gapless.connect.sources.piecewise import Piece
from gapless.connect.sources.positioned import Position, PositionedSource
from gapless.connect.sources.protocol import SourceCapabilities
from gapless.errors import InvalidOption, ObjectNotFound, UnreadableInput, shorten
from gapless.files.ingest.json_records import json_records
from gapless.runtime.environment import RandomIds, SystemClock


class HttpSource(PositionedSource):
    """Records of a service in the order in which it gives them. Made by `gl.connect.source`.

    The cursor names a page, how many of its rows were taken, and a digest of these: a page that is answered otherwise when it is asked for
    again is an error.
    """

    kind = "http"

    def __init__(
        self, service: HttpService, pagination: Pagination, *, records: str, start: object, schema: pa.Schema | None
    ) -> None:
        """`records` is the path of the rows in a page."""
        super().__init__(service.place, schema)
        self._service, self._pagination, self._records = service, pagination, records
        self._begin = pagination.first(start)

    @property
    def capabilities(self) -> SourceCapabilities:
        """It replays where pages are named by a token, or by a value of the rows."""
        return SourceCapabilities(replays=self._pagination.replays, retracts=False, evolves=self._evolves)

    def close(self) -> None:
        """Close its connections."""
        self._service.close()

    def _first(self) -> Position:
        return Position(state={"page": self._begin, "row": 0, "digest": None})

    def _resumed(self, state: Mapping[str, Any]) -> Position:
        page, row, digest = state["page"], state["row"], state["digest"]
        if not isinstance(page, str | int | None) or type(row) is not int or row < 0 or not isinstance(digest, str | None):
            raise ValueError(f"page {page!r}, row {row!r}")
        return Position(state={"page": page, "row": row, "digest": digest})

    def _read(self, position: Position) -> Iterator[Piece[Position]]:
        try:
            yield from self._pages(position)
        finally:
            # Who is up to date, or stops reading, holds no connection.
            self._service.close()

    def _pages(self, position: Position) -> Iterator[Piece[Position]]:
        mark, row, told = (position.state[name] for name in ("page", "row", "digest"))
        before, asked = None if row else told, mark
        while True:
            try:
                page = self._page(mark)
            except ObjectNotFound:
                if mark == asked or not self._pagination.ends_with_404:
                    raise
                return
            self._check_same(page.records, row, told)
            self._pagination.check(mark, page, self.place)
            digest = _digest(page.records)
            if page.records and digest == before:
                raise self._repeated(mark)
            rest, follows = page.records[row:], self._pagination.following(mark, page)
            if follows is not None and follows == mark:
                raise self._repeated(mark)
            after = partial(self._after, mark, page, row)
            if rest:
                part = json_records(rest, self.place, self._expected)
                batches = pa.Table.from_batches(self._fitted(part), self._schema).combine_chunks().to_batches()
                yield Piece(rows=batches[0], after=after)
            elif follows is not None:
                yield Piece(rows=pa.RecordBatch.from_pylist([], schema=self._schema or pa.schema([])), after=after)
            if follows is None:
                return
            mark, row, told, before = follows, 0, None, digest

    def _page(self, mark: Mark) -> Page:
        body, link = self._service.get(self._pagination.parameters(mark), self._pagination.link(mark))
        found: object = [] if body is None else at_path(body, self._records)
        if not isinstance(found, list):
            has = f"It has {', '.join(map(repr, body))}" if isinstance(body, Mapping) else f"It is {shorten(body)}"
            raise UnreadableInput(
                f"a page of {self.place} has no list of records at {self._records!r}",
                why=has[:300],
                fix="Pass records= with the path of the list, names with dots between; an empty text is the page itself",
                source=self.place,
            )
        return Page(body=body, records=found, next_link=link)

    def _after(self, mark: Mark, page: Page, given: int, rows: int) -> Position:
        """Behind the first so many rows of a page after those that were `given` before."""
        taken = page.records[: given + rows]
        ends = self._pagination.ends(mark, page) if len(taken) == len(page.records) else None
        at, row = (ends, 0) if ends is not None else self._pagination.place(mark, taken)
        # At the start of a page it is that of the one before, whole.
        digest = _digest(taken) if row or (ends is not None and taken) else None
        return Position(state={"page": at, "row": row, "digest": digest})

    def _check_same(self, records: Sequence[Any], row: int, told: str | None) -> None:
        if row and (len(records) < row or _digest(records[:row]) != told):
            raise UnreadableInput(
                f"{self.place} answers a page otherwise than before, of which {row} rows were read",
                why="Rows were changed, removed or put in between, so that those which follow cannot be told",
                fix="Read it from the start, into a sink of a higher generation, by AfterValue(…) where the service has that",
                source=self.place,
            )

    def _repeated(self, mark: Mark) -> UnreadableInput:
        return UnreadableInput(
            f"{self.place} gave the same page again as the next one of {shorten(mark)}",
            why="It would be read for ever; the service does not heed what names the page",
            fix="Check the parameter's name in pagination=",
            source=self.place,
        )


def _digest(records: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()[:32]


def open_http_source(
    url: str,
    *,
    records: str = "",
    pagination: Pagination | None = None,
    start: object = None,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    schema: pa.Schema | None = None,
    timeout_s: float = 30.0,
) -> HttpSource:
    """A source of the records of an HTTP service that gives JSON.

    Args:
        url: Of the first page.
        records: Path of the rows in a page, names with dots between; empty where the page is the list itself.
        pagination: How pages follow each other: `AfterValue`, `PageToken`, `NextLink`, `LinkHeader`, `PageNumber` or `Offset`; without it there
            is one page.
        start: The value to begin after (AfterValue), or the token to begin with (PageToken); else all.
        params: Of the query, with each page.
        headers: With each request; what they hold is in no message, cursor or repr, and is sent to this host alone.
        schema: The columns; without it those of the first page, or of each with on_schema_change="evolve".
        timeout_s: Seconds to wait for a connection, and for each part of an answer.

    Requests are sent again after 408, 425, 429, 5xx, cut connections and torn JSON, six times in all, with growing waits or as
    Retry-After says. Raises InvalidOption, UnsupportedType; NotSupported without httpx, as it is started.
    """
    if pagination is not None and not isinstance(pagination, Pagination):
        raise InvalidOption(
            f"pagination={pagination!r} is none",
            fix="Pass such as gl.connect.AfterValue('since_id', 'id')",
            option="pagination",
            value=pagination,
        )
    check_request(url, {} if params is None else params)
    if type(timeout_s) not in (int, float) or timeout_s <= 0:
        raise InvalidOption(
            f"timeout_s={timeout_s!r} is no time to wait", fix="Pass seconds, such as 30.0", option="timeout_s", value=timeout_s
        )
    service = HttpService(
        url=url,
        clock=SystemClock(),
        ids=RandomIds(),
        headers=dict(headers or {}),
        params=dict(params or {}),
        timeout_s=timeout_s,
    )
    return HttpSource(service, pagination or SinglePage(), records=records, start=start, schema=schema)
