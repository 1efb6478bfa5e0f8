"""Queries of callers who are not trusted: nothing but the lake's tables is read, nothing is written, and rows, time and memory have an end."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.errors import InvalidOption, InvalidQuery, QueryLimitExceeded
from gapless.lake.query import LakeQuery
from gapless.lake.views import text_literal

if TYPE_CHECKING:
    import duckdb

_LARGEST = 1 << 40
_MEMORY_LEAST = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """How far a query may go."""

    rows: int = 1000
    """Rows of an answer; what is more is left out, and the answer says so."""
    seconds: float = 30.0
    """From the start to the last row of the answer."""
    memory_bytes: int = 1 << 30
    """What DuckDB may hold; it writes no temporary files."""
    answer_bytes: int = 1 << 20
    """Bytes of an answer in Arrow's layout; what is more is left out, and the answer says so."""

    def __post_init__(self) -> None:
        """Raise InvalidOption for what is no limit."""
        least = {"rows": 1, "seconds": 0.001, "memory_bytes": _MEMORY_LEAST, "answer_bytes": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            whole = int | float if name == "seconds" else int
            if isinstance(value, bool) or not isinstance(value, whole) or not smallest <= value <= _LARGEST:
                raise InvalidOption(
                    f"{name}={value!r} is no limit of a query",
                    why=f"It is a number of at least {smallest}",
                    fix=f"Leave it out for {getattr(type(self)(), name)}",
                    option=name,
                    value=value,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedAnswer:
    """The first rows of an answer."""

    table: pa.Table
    truncated_by: str | None
    """"rows" or "bytes" where there are more rows than these."""


@dataclass(slots=True, kw_only=True)
class LimitedQuery:
    """A query that runs once, at most so far as its limits say. Made by `lake.limited_query`.

    DuckDB opens the files of the tables that the query names and no others; no setting can be changed, no extension loaded, nothing written.
    """

    query: LakeQuery
    files: Sequence[str]
    """All that it may open, each a whole path."""
    limits: QueryLimits
    _connection: duckdb.DuckDBPyConnection | None = None
    _outcome: Future[LimitedAnswer] = field(default_factory=Future)

    @property
    def ended(self) -> bool:
        """Whether nothing is at work for it, and nothing will be."""
        return self._outcome.done()

    def run(self) -> LimitedAnswer:
        """The first rows. Raises QueryLimitExceeded past the time or memory, InvalidQuery."""
        if not self._outcome.set_running_or_notify_cancel():
            raise self._interrupted()
        try:
            self._connection = self._connect()
        except BaseException as error:
            self._outcome.set_exception(error)
            raise
        # DuckDB looks whether it is to stop between two chunks of rows, which may take long: the caller does not wait for it. A process that
        # ends does, since a thread that is taken away from DuckDB is an abort.
        Thread(target=self._work, args=(self._connection,), name="gapless-limited-query").start()
        try:
            return self._outcome.result(self.limits.seconds)
        except TimeoutError:
            raise QueryLimitExceeded(
                f"the query did not end within {self.limits.seconds:g} seconds",
                why="It was stopped, and nothing of its answer is kept",
                fix="Ask for less: filter, aggregate, or look at fewer tables",
                limit="seconds",
                sql=self.query.sql,
            ) from None
        finally:
            self.interrupt()

    def interrupt(self) -> None:
        """Have it end, soon; one that was not begun ends at once. `run` raises InvalidQuery then."""
        import duckdb

        if not self._outcome.cancel() and self._connection is not None:
            with suppress(duckdb.ConnectionException):  # it has ended
                self._connection.interrupt()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = self.query.connect(memory_limit=f"{self.limits.memory_bytes}B", temp_directory="")
        allowed = ", ".join(text_literal(path) for path in self.files)
        with self.query.typed():
            connection.execute(f"SET allowed_paths = [{allowed}]")
            for setting in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
                connection.execute(f"SET {setting} = false")
            connection.execute("SET lock_configuration = true")
        return connection

    def _work(self, connection: duckdb.DuckDBPyConnection) -> None:
        answer, failure = None, None
        try:
            answer = self._read(self.query.start(connection))
        except BaseException as error:  # noqa: BLE001  # it is raised again where the answer is awaited
            failure = self._out_of_memory(error) if "Out of Memory" in str(error.__cause__) else error
        with suppress(Exception):
            connection.close()
        if failure is not None:
            self._outcome.set_exception(failure)
        elif answer is not None:
            self._outcome.set_result(answer)

    def _read(self, reader: pa.RecordBatchReader) -> LimitedAnswer:
        """Rows up to the limits, and whether there are more."""
        kept, rows, size, cut = list[pa.RecordBatch](), 0, 0, None
        with self.query.typed():
            for batch in reader:
                part = batch.slice(0, self.limits.rows - rows)
                fits = _rows_within(part, self.limits.answer_bytes - size)
                kept.append(part.slice(0, fits))
                rows, size = rows + fits, size + kept[-1].nbytes
                if fits < batch.num_rows:
                    cut = "bytes" if fits < part.num_rows else "rows"
                    break
        return LimitedAnswer(table=pa.Table.from_batches(kept, schema=reader.schema), truncated_by=cut)

    def _interrupted(self) -> InvalidQuery:
        return InvalidQuery(
            "the query was interrupted before it began", fix="Ask again where the answer is wanted", sql=self.query.sql
        )

    def _out_of_memory(self, error: BaseException) -> QueryLimitExceeded:
        found = QueryLimitExceeded(
            f"the query needs more than {self.limits.memory_bytes} bytes of memory",
            why="It was stopped, and nothing of its answer is kept",
            fix="Ask for less: filter before joins and sorts, or aggregate",
            limit="memory_bytes",
            sql=self.query.sql,
        )
        found.__cause__ = error
        return found


def _rows_within(batch: pa.RecordBatch, size: int) -> int:
    """How many of the first rows take at most so many bytes."""
    least, most = 0, batch.num_rows
    while least < most:
        middle = (least + most + 1) // 2
        if batch.slice(0, middle).nbytes <= size:
            least = middle
        else:
            most = middle - 1
    return least
