"""Filling gaps: ask for what is missing, append what comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.gap import Coverage, Gap
from gapless.coverage.span import Span
from gapless.errors import DataError, FillStopped, GaplessError, InvalidOption, nearest
from gapless.model.index import Identity, IndexSpec
from gapless.model.report import AppendReport
from gapless.parquet.batches import Batches
from gapless.table.answers import Asked

Fetch = Callable[[Identity, Any, Any], object]
"""Given an identity, a start and an end (just past): the rows of that range, in any form that `append` takes; None for none."""
Done = Callable[[int, int], None]
"""Told the gaps done, and all there are."""
ON_ERROR = ("raise", "continue")

_Part = tuple[Identity, Span]


@dataclass(frozen=True, slots=True)
class FailedGap:
    """A gap that was asked for and not filled, and why."""

    gap: Gap[Any]
    reason: str
    """The error's class and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillReport:
    """What one fill did."""

    version: int
    """The table's version after it."""
    asked: int
    """Gaps, or parts of gaps, that `fetch` was asked for."""
    rows: int
    """Rows appended."""
    skipped_rows: int
    """Rows left out because their bucket was covered already."""
    filled_buckets: int
    """Buckets that were missing and no longer are."""
    missing: tuple[Gap[Any], ...]
    """What is still missing of what was looked at, as `Coverage.gaps` gives it; asked for again the next time."""
    empty: tuple[Gap[Any], ...] = ()
    """Gaps, or parts, for which nothing came."""
    failed: tuple[FailedGap, ...] = ()
    """Gaps, or parts, at which an error came."""

    @property
    def missing_buckets(self) -> int:
        """How many buckets are still missing."""
        return sum(gap.buckets for gap in self.missing)


@dataclass(slots=True)
class _SoFar:
    asked: int = 0
    rows: int = 0
    skipped_rows: int = 0
    empty: list[_Part] = field(default_factory=list)
    failed: list[tuple[_Part, Exception]] = field(default_factory=list)
    stopped: tuple[_Part, Exception] | None = None


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """One fill of one table."""

    fetch: Fetch
    question: Coverage[Any]
    """What is covered and what is missing at the start."""
    append: Callable[[Batches], AppendReport]
    """Append rows, leaving out those of covered buckets."""
    covered: Callable[[], tuple[int, CoverageMap]]
    """The table's version, and what it now covers of the question's identities."""
    meta: Callable[[], tuple[IndexSpec, pa.Schema | None]]
    """The table's index and schema as they now are."""
    max_buckets: int | None = None
    max_workers: int = 1
    on_error: str = "raise"

    def __post_init__(self) -> None:
        if not callable(self.fetch):
            raise InvalidOption(
                f"fetch={self.fetch!r} cannot be called",
                fix="Pass a function of (identity, start, end)",
                option="fetch",
                value=self.fetch,
            )
        workers: object = self.max_workers
        if not isinstance(workers, int) or workers < 1:
            raise InvalidOption(
                f"max_workers={workers!r} is no number of threads",
                fix="Pass 1 or more",
                option="max_workers",
                value=workers,
            )
        if self.on_error not in ON_ERROR:
            raise InvalidOption(
                f"on_error={self.on_error!r} is not known", fix=nearest(str(self.on_error), ON_ERROR), option="on_error", value=self.on_error
            )  # fmt: skip

    def run(self, progress: Done | None = None) -> FillReport:
        """Ask for every gap and append each answer as it comes, each as one commit, in this thread.

        Raises FillStopped at the first error, once what was being fetched then is appended too; with `on_error="continue"` only where
        the table, and not the answer, is the matter.
        """
        parts = list(self.question.missing(self.max_buckets))
        so_far = _SoFar()
        for part, answer in self._answers(takewhile(lambda _: so_far.stopped is None, parts)):
            so_far.asked += 1
            self._take(part, answer, so_far)
            if progress is not None:
                progress(so_far.asked, len(parts))
        report = self._report(so_far)
        if so_far.stopped is not None:
            part, cause = so_far.stopped
            raise self._stopped(part, cause, report, len(parts)) from cause
        return report

    def _answers(self, parts: Iterable[_Part]) -> Iterator[tuple[_Part, object]]:
        """Each part with what fetch gave for it, in the order in which they come."""
        if self.max_workers == 1:
            yield from ((part, self._ask(part)) for part in parts)
            return
        pool = ThreadPoolExecutor(self.max_workers, thread_name_prefix="gapless-fill")
        left, running = iter(parts), dict[Future[object], _Part]()
        try:
            while True:
                running |= {pool.submit(self._ask, part): part for part in islice(left, self.max_workers - len(running))}
                if not running:
                    return
                # The pool goes on fetching while answers are appended: at most as many again wait for their turn.
                come = [(running.pop(future), future) for future in wait(running, return_when=FIRST_COMPLETED).done]
                running |= {pool.submit(self._ask, part): part for part in islice(left, self.max_workers - len(running))}
                for part, future in come:
                    yield part, future.result()
        finally:
            # Not waited for: after Ctrl-C a fetch may take its time, and nobody will append what it brings.
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, part: _Part) -> object:
        gap = self.question.gap(*part)
        try:
            return self.fetch(gap.identity, gap.start, gap.end)
        except Exception as error:  # noqa: BLE001  # fetch is the caller's: whatever it raises goes into the report
            return _Failure(error)

    def _take(self, part: _Part, answer: object, so_far: _SoFar) -> None:
        """Append an answer, or note why not."""
        try:
            if isinstance(answer, _Failure):
                raise answer.error  # noqa: TRY301  # an answer that fails while it is read is treated alike
            rows = self._asked(part).rows_of(answer)
            if rows is None:
                so_far.empty.append(part)
                return
            report = self.append(rows)
        except Exception as error:  # noqa: BLE001  # kept, and raised as the cause of FillStopped
            so_far.failed.append((part, error))
            if self.on_error == "raise" or not (isinstance(answer, _Failure) or _is_of_answer(error)):
                so_far.stopped = so_far.stopped or (part, error)
        else:
            so_far.rows += report.rows
            so_far.skipped_rows += report.skipped_rows

    def _asked(self, part: _Part) -> Asked:
        index, schema = self.meta()
        return Asked(identity=part[0], span=part[1], index=index, schema=schema, grid=self.question.grid)

    def _report(self, so_far: _SoFar) -> FillReport:
        version, covered = self.covered()
        after = self.question.over(covered)
        return FillReport(
            version=version,
            asked=so_far.asked,
            rows=so_far.rows,
            skipped_rows=so_far.skipped_rows,
            filled_buckets=after.covered - self.question.covered,
            missing=tuple(after.gaps()),
            empty=self._gaps(so_far.empty),
            failed=tuple(
                FailedGap(self.question.gap(*part), f"{type(error).__name__}: {error}") for part, error in so_far.failed
            ),
        )

    def _gaps(self, parts: Sequence[_Part]) -> tuple[Gap[Any], ...]:
        return tuple(self.question.gap(*part) for part in parts)

    def _stopped(self, part: _Part, cause: Exception, report: FillReport, parts: int) -> FillStopped:
        gap = self.question.gap(*part)
        return FillStopped(
            f"the fill stopped at {self._asked(part)}: {type(cause).__name__}: {cause}",
            why=f"{report.asked - len(report.failed):,} of {parts:,} gaps were asked for without an error; the {report.rows:,} rows that came"
            " are in the table",
            fix="Mend the cause and fill again: it asks for exactly what is still missing",
            identity=gap.identity, start=gap.start, end=gap.end, report=report,
        )  # fmt: skip


def _is_of_answer(error: Exception) -> bool:
    """Whether an error of an append is a matter of the rows, or of what they are read from, and not of the table."""
    return isinstance(error, DataError) or not isinstance(error, GaplessError)
