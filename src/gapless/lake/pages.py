"""What a run reads: rows at once, page by page with a cursor behind each, or out of a source of `gapless.connect`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.connect.sources.protocol import Cursor, Source
from gapless.errors import InvalidOption
from gapless.files.ingest.batches import Batches
from gapless.tables.shared.inputs.rows import as_batches


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and where the source goes on behind them."""

    rows: object
    """Anything that `append` takes."""
    cursor: Any = None
    """JSON; what the source is asked from the next time. Only pages of an opaque or snapshot cursor have one."""


LATER: Any = object()
"""The cursor of a page behind which nobody could go on: of a run nothing counts before the page that has one."""
Fetch = Callable[[Any], object]
"""Gives rows, or pages, from a cursor on: None at first."""
PAGE_ROWS = 100_000
"""Rows of a source of `gapless.connect` between two cursors."""


def pages_of(source: object, saved: Any) -> Iterator[Page]:
    """The pages of a run from the saved cursor on; nothing is read before the first is asked for."""
    if isinstance(source, Source):
        yield from _polled(source, saved)
        return
    found = source(saved) if callable(source) else source
    if isinstance(found, Page):
        yield found
    elif isinstance(found, Iterator):
        yield from _iterated(found)
    else:
        yield Page(found)


def _iterated(found: Iterator[object]) -> Iterator[Page]:
    """Pages of an iterator that gives such; else all of its items are the rows of one."""
    first = next(found, None)
    if isinstance(first, Page):
        yield first
        for page in found:
            if not isinstance(page, Page):
                raise InvalidOption(
                    f"the source gave a {type(page).__name__} among pages",
                    why="What gives pages gives nothing else",
                    fix="Yield gl.lake.Page(rows, cursor) each time",
                    option="source",
                    value=None,
                )
            yield page
    elif first is not None:
        yield Page(_chained(first, found))


def _chained(first: object, rest: Iterator[object]) -> Iterator[object]:
    yield first
    yield from rest


def _polled(source: Source, saved: Any) -> Iterator[Page]:
    source.start(None if saved is None else Cursor.from_json(saved))
    while True:
        polled = source.poll(PAGE_ROWS)
        if polled.rows:
            yield Page(pa.Table.from_batches(polled.batches), source.cursor.to_json())
        elif not polled.schema_changed:
            return


def read_page(rows: object) -> pa.Table:
    """The rows of a page, in memory. Raises UnreadableInput and the other DataErrors."""
    part = rows if isinstance(rows, Batches) else as_batches(rows)
    batches = list(part)
    return pa.Table.from_batches(batches, part.schema) if part.schema.names else pa.table({})


def told_source(source: object) -> str:
    """What a manifest says of the source: its kind and place, never its options."""
    if isinstance(source, Source):
        place = getattr(source, "place", "")
        return f"{getattr(source, 'kind', type(source).__name__)}:{place}".rstrip(":")
    if isinstance(told := getattr(source, "told", None), str):
        return told
    if callable(source):
        return f"function {getattr(source, '__qualname__', type(source).__name__)}"
    return f"{type(source).__name__}"
