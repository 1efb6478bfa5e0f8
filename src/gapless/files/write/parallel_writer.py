"""A Parquet writer that encodes the columns of a row group side by side: simple ones as they lie in memory, others by Arrow's writer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import pyarrow as pa

from gapless.files.pages.column_chunk import Chunk, Leaf, WriterOptions, arrow_chunks, chunk_of
from gapless.files.pages.column_stats import GrowingStats
from gapless.files.pages.encodings import DELTA, DICTIONARY
from gapless.files.pages.file_assembly import MAGIC, FooterTemplate, footer_template, row_group
from gapless.files.pages.flat_column import OURS, coded_column, flat_column, form_of
from gapless.files.pages.page import Bytes
from gapless.files.sort.order import Ordered
from gapless.model.stats import cuts

_SHARE_BYTES = 1 << 20
"""Columns of less, in Arrow's memory, are given to Arrow's writer together: a file of its own costs some thousand values."""

_JOINED_BYTES = 1 << 16
"""A column chunk of no more is handed on in one piece: it takes less than to hand on each."""

Named = tuple[str, Chunk]


class Sink(Protocol):
    """What takes the bytes of a file, one piece after the other."""

    def write(self, *pieces: Bytes) -> object:
        """Add bytes, one piece after the other."""
        ...

    def tell(self) -> int:
        """Bytes so far."""
        ...


class ParallelWriter:
    """Writes whole pieces to `sink`, from its beginning: the same bytes for the same rows, whoever encodes them."""

    def __init__(self, sink: Sink, schema: pa.Schema, options: WriterOptions) -> None:
        self._sink, self._options = sink, options
        self._layout = _layout(schema.serialize().to_pybytes())
        ours = options.encodings.of_each(self._layout.leaves)
        self._ours = {name: encoding for name, encoding in ours.items() if encoding in OURS}
        """The columns that we write ourselves, where their values are of the kind, and how they are encoded."""
        self._compressions = options.compressions(self._ours)
        self.stats: dict[str, GrowingStats] = {
            name: GrowingStats()
            for name, encoding in self._ours.items()
            if self._layout.leaves[name].told and encoding != DELTA
        }
        """What the log says of columns of numbers, of which it so need not be found out otherwise."""
        self._groups: list[bytes] = []
        self._rows = 0
        sink.write(MAGIC)

    def write(self, rows: Ordered, row_group_size: int, *, cores: int, meanwhile: Callable[[], None]) -> None:
        """Add rows, as row groups of up to so many; with several `cores` others encode and do `meanwhile`, while this thread writes."""
        shares = self._shares(rows)
        groups = [
            (end - start, [partial(share, start, end) for share in shares]) for start, end in cuts(rows.count, row_group_size)
        ]
        self._rows += rows.count
        if cores < 2:
            for count, acts in groups:
                self._add(count, (act() for act in acts))
            meanwhile()
            return
        # Threads live no longer than the call: a fork would leave a pool without any.
        with ThreadPoolExecutor(cores) as pool:
            waiting = deque((count, [pool.submit(act) for act in acts]) for count, acts in groups)
            # Last: this thread has something to write the earlier.
            done = pool.submit(meanwhile)
            while waiting:
                count, parts = waiting.popleft()  # what is written is let go
                self._add(count, (part.result() for part in parts))
            done.result()

    def copy(self, sink: Sink) -> ParallelWriter:
        """Another one that goes on by itself, onto a copy of what it writes to."""
        other = copy(self)
        other._sink, other._groups = sink, [*self._groups]  # noqa: SLF001  # of this class
        other.stats = {name: copy(stats) for name, stats in self.stats.items()}
        return other

    def close(self) -> None:
        """Write the footer; nothing may be written after."""
        self._sink.write(self._layout.shell.end_of(self._rows, self._groups, self._options.notes))

    def _shares(self, rows: Ordered) -> list[Callable[[int, int], list[Named]]]:
        """What encodes some columns of the rows `[start, end)` each, by the first of them."""
        shares = {name: partial(self._encode, rows, name) for name in self._ours}
        others = [name for name in rows.schema.names if name not in self._ours]
        shares |= {names[0]: partial(self._leave, rows, names) for names in _together(rows.source, others)}
        return [shares[name] for name in rows.schema.names if name in shares]

    def _encode(self, rows: Ordered, name: str, start: int, end: int) -> list[Named]:
        """A column of ours."""
        leaf, encoding = self._layout.leaves[name], self._ours[name]
        known = rows.spelled.get(name) if encoding == DICTIONARY else None
        column = None if known is None else coded_column(known.values, known.places[start:end], leaf.form)
        # Numbers too many for a dictionary are ours still: only so are they told.
        column = column or flat_column(rows.column(name, start, end), leaf.form, encoding)
        if column is None:
            return self._leave(rows, [name], start, end)
        return [(name, chunk_of(leaf, column, self._compressions[name]))]

    def _leave(self, rows: Ordered, names: list[str], start: int, end: int) -> list[Named]:
        """Columns that are left to Arrow's writer."""
        return list(arrow_chunks(rows.columns(names, start, end), self._options))

    def _add(self, count: int, parts: Iterable[list[Named]]) -> None:
        """Write a row group of so many rows, each column as soon as those before it are there."""
        start, plain = self._sink.tell(), 0
        described: list[bytes] = []
        for name, chunk in self._in_order(parts):
            if (told := self.stats.get(name)) is not None:
                assert chunk.stats is not None
                told.add(chunk.stats, count)
            described.append(chunk.describe(self._sink.tell()))
            plain += chunk.plain_size
            pieces = chunk.pieces if chunk.size > _JOINED_BYTES else (b"".join(chunk.pieces),)
            self._sink.write(*pieces)
        self._groups.append(row_group(described, rows=count, plain=plain, start=start, size=self._sink.tell() - start))

    def _in_order(self, parts: Iterable[list[Named]]) -> Iterator[Named]:
        """The chunks of a row group in the order of its columns."""
        early: dict[int, list[Named]] = {}
        place = 0
        for part in parts:
            for named in part:
                early.setdefault(self._layout.places[named[0]], []).append(named)
            while place in early:
                yield from early.pop(place)
                place += 1


@dataclass(frozen=True, slots=True)
class _Layout:
    """What files have in common that have the same columns."""

    shell: FooterTemplate
    places: Mapping[str, int]
    """Of each column at the top, by name."""
    leaves: Mapping[str, Leaf]
    """The columns that may be ours, by name."""


@lru_cache(maxsize=64)
def _layout(serialized: bytes) -> _Layout:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    shell = footer_template(schema)
    leaves = {}
    for one, element in zip(schema, shell.columns, strict=False):
        form = form_of(one.type)
        if form is not None and element.get(1, (0, None))[1] == form.kind:
            leaves[one.name] = Leaf(name=one.name, form=form, optional=element[3][1] == 1, told=_is_number(one.type))
    return _Layout(shell, {name: at for at, name in enumerate(schema.names)}, leaves)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _together(table: pa.Table, names: list[str]) -> Iterator[list[str]]:
    """Columns that Arrow's writer encodes together."""
    if not names:
        return
    sizes = {name: table.column(name).nbytes for name in names}
    limit = max(_SHARE_BYTES, sum(sizes.values()) // (4 * pa.cpu_count()))
    held: list[str] = []
    held_bytes = 0
    for name, size in sizes.items():
        held.append(name)
        held_bytes += size
        if held_bytes >= limit:
            yield held
            held, held_bytes = [], 0
    if held:
        yield held
