"""Filling gaps by many hands: asked for and written by executors, planned and committed by the driver."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from gapless.coverage.gap import Gap
from gapless.errors import GaplessError, InvalidOption
from gapless.model.operation import AppendReport
from gapless.model.properties import with_defaults
from gapless.model.schema import entity_types
from gapless.spark.setup.executors import parallelism, required, spread_work
from gapless.spark.setup.job_context import job_context
from gapless.spark.setup.tables import series_of
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.spark.writing.series_target import SeriesTarget
from gapless.spark.writing.target import Delivery
from gapless.tables.shared.handle import Location
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.fetched import FetchedRows
from gapless.tables.timeseries.write.fill import GAP_DEFAULTS, Backfill, Failed, Fetch, FillReport, GapOptions, check_fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST_TOGETHER = 8
"""Gaps that one task asks for, where there are many: each task costs the driver some tenths of a second."""


class BackfillOptions(GapOptions, total=False):
    """Options of `backfill`: those of `table.fill`, and the range that is looked at."""

    start: object
    end: object
    max_workers: int | None


BACKFILL_DEFAULTS: BackfillOptions = {**GAP_DEFAULTS, "start": None, "end": None, "max_workers": None}


def backfill(
    spark: SparkSession, table: TimeSeriesTable | Location, fetch: Fetch, **options: Unpack[BackfillOptions]
) -> FillReport:
    """Ask for every gap as `table.fill` does, by tasks of Spark's, which write what comes where they run.

    Args:
        spark: A session whose executors can call `fetch` and reach the table.
        table: A table, or the path or URL of one.
        fetch: As in `table.fill`. It is sent to executors pickled, anew for each gap: what it opens it should open when it is called.
        start: What is looked at; this and `end`, `entity`, `identities` and `calendar` as in `coverage`.
        end: Just past it.
        entity: Values of entity columns.
        identities: The identities that are expected.
        calendar: When rows are expected.
        max_buckets: A gap of more missing buckets is asked for in parts: the less, the more tasks share the work.
        max_workers: How many calls of `fetch` may run at once; None: as many as the executors run tasks.
        progress: Called here after each gap with the gaps done and all there are.
        on_error: "raise" or "continue", as in `table.fill`.

    Each answer is a commit of its own, made as it comes, less the rows of covered buckets; the rows themselves do not pass through the
    driver, but in a `unique` table, where another writer was faster, and in a table without a schema, until the first rows gave it one.
    Where there are many gaps, a task asks for up to 8, one after the other. `fetch` is called twice for a gap only where Spark runs its
    task twice, lost or slow (speculation): each row is there once, and `table.vacuum` takes away what the other one wrote. An error that
    cannot be pickled is told as a RuntimeError.

    Raises as `table.fill`; NotSupported for a table in memory and for a Delta table, InvalidOption for a view, and for a `fetch` that cannot be pickled.
    """
    chosen = with_defaults("backfill", options, BACKFILL_DEFAULTS)
    handle = series_of(table, "backfill")
    context = job_context(handle, to_write=True)
    question = handle.refresh().coverage(
        chosen["start"],
        chosen["end"],
        entity=chosen["entity"],
        identities=chosen["identities"],
        calendar=chosen["calendar"],
    )
    whose = frozenset(question.identities)

    def covered() -> tuple[int, Any]:
        types = () if handle.schema is None else entity_types(handle.schema, handle.index)
        return handle.version, context.cache.union(handle.segments(), types, whose)

    return Backfill(
        source=_Executors(spark=spark, handle=handle, fetch=_pickled(fetch), goes_on=chosen["on_error"] == "continue"),
        question=question,
        covered=covered,
        meta=lambda: (handle.index, handle.schema),
        max_buckets=chosen["max_buckets"],
        max_workers=parallelism(spark) if (workers := chosen["max_workers"]) is None else workers,
        most_together=MOST_TOGETHER,
        on_error=chosen["on_error"],
    ).run(chosen["progress"])


def _pickled(fetch: Fetch) -> bytes:
    from pyspark import cloudpickle

    check_fetch(fetch)
    try:
        pickled: bytes = cloudpickle.dumps(fetch)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise InvalidOption(
            f"fetch={fetch!r} cannot be sent to executors",
            why=f"It cannot be pickled: {error}",
            fix="Make what cannot be sent (connections, locks, sessions) inside of it, when it is called",
            option="fetch",
            value=fetch,
        ) from error
    return pickled


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What came for a gap, as segments that await their commit."""

    encoding: Encoding
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error of a task that will not be tried again."""

    pickled: bytes
    by_fetch: bool
    """Whether `fetch` raised it, and not what was made of its answer."""

    @classmethod
    def of(cls, error: Exception, *, by_fetch: bool) -> Failure:
        """The error, with where it was raised as a note; one that does not survive pickling as a RuntimeError of the same text."""
        from pyspark import cloudpickle

        error.add_note("".join(["On an executor:\n", *traceback.format_exception(error)]))
        try:
            pickled = cloudpickle.dumps(error)  # type: ignore[no-untyped-call]
            pickle.loads(pickled)  # noqa: S301  # made on the line above
        except Exception:  # noqa: BLE001  # pickling runs code of the error's own
            pickled = cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))  # type: ignore[no-untyped-call]
        return cls(pickled=pickled, by_fetch=by_fetch)

    @property
    def error(self) -> Exception:
        """The error, made anew."""
        found: Exception = pickle.loads(self.pickled)  # noqa: S301  # our own executors made it
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTask:
    """Some gaps to be asked for on an executor, one after the other; picklable."""

    fetch: bytes
    """The function, pickled."""
    gaps: tuple[tuple[FetchedRows, Gap[Any]], ...]
    encoding: Encoding | None
    """None where the table has no schema yet."""
    goes_on: bool
    """Whether the others are asked for after a failure."""

    def run(self) -> list[object]:
        """What came for each gap: `Stored`, a table of the rows where there is no `encoding`, None for none, or a `Failure`, which is the
        last where it does not go on.
        """
        answers: list[object] = []
        for asked, gap in self.gaps:
            answers.append(self._answer(asked, gap))
            if isinstance(answers[-1], Failure) and not self.goes_on:
                break
        return answers

    def _answer(self, asked: FetchedRows, gap: Gap[Any]) -> object:
        try:
            fetch: Fetch = pickle.loads(self.fetch)  # noqa: S301  # our own driver made it
            answer = fetch(gap.identity, gap.start, gap.end)
        except Exception as error:  # noqa: BLE001  # whatever it raises goes into the report
            return Failure.of(error, by_fetch=True)
        try:
            return self._kept(asked, answer)
        except Exception as error:  # noqa: BLE001  # as above; raised, Spark would fetch once more
            return Failure.of(error, by_fetch=False)

    def _kept(self, asked: FetchedRows, answer: object) -> object:
        rows = asked.rows_of(answer)
        if rows is None:
            return None
        if self.encoding is None:
            return pa.Table.from_batches(rows, rows.schema)
        encoding = self.encoding.taking(rows)
        return Stored(encoding=encoding, outcome=encoding.stored(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Executors:
    """A `Source` whose gaps are asked for by tasks."""

    spark: SparkSession
    handle: TimeSeriesTable
    fetch: bytes
    goes_on: bool

    def ask(self, gaps: Sequence[tuple[FetchedRows, Gap[Any]]]) -> list[object]:
        schema = gaps[0][0].schema
        try:
            encoding = None if schema is None else SeriesTarget(handle=self.handle).begin(schema, Delivery())
        except GaplessError as error:
            # A matter of the table and not of the gaps: raised where answers are appended.
            return [error] * len(gaps)
        task = FillTask(fetch=self.fetch, gaps=tuple(gaps), encoding=encoding, goes_on=self.goes_on)
        (answers,) = required(spread_work(self.spark, FillTask.run, [task]))
        return [Failed(one.error) if isinstance(one, Failure) and one.by_fetch else one for one in answers]

    def append(self, _asked: FetchedRows, answer: object) -> AppendReport | None:
        match answer:
            case GaplessError():
                raise answer
            case Failure():
                raise answer.error
            case Stored():
                target = SeriesTarget(handle=self.handle)
                return target.append(Delivery(on_overlap="skip"), answer.encoding, [answer.outcome])
            case pa.Table():
                return self.handle.append(answer, on_overlap="skip")
        return None
