"""Filling gaps: fetch the rows of each gap, check that they belong to it, append them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from typing import Any, Protocol, TypedDict

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.calendar import Calendar
from gapless.coverage.expected import Span
from gapless.coverage.gap import Coverage, Gap
from gapless.errors import DataError, FillStopped, GaplessError, InvalidOption, one_of
from gapless.files.ingest.batches import Batches
from gapless.model.index import Identity, IndexSpec
from gapless.model.operation import AppendReport
from gapless.tables.timeseries.write.fetched import FetchedRows

Fetch = Callable[[Identity, Any, Any], object]
"""Given an identity, a start and an end (just past): the rows of that range, in any form that `append` takes; None for none."""
Done = Callable[[int, int], None]
"""Told the gaps done, and all there are."""
ON_ERROR = ("raise", "continue")
_Part = tuple[Identity, Span]
_TURNS = 4
"""Groups that each worker takes at least, one after the other, before groups grow."""


class Source(Protocol):
    """Where the rows of gaps come from, and the way into the table."""

    def ask(self, gaps: Sequence[tuple[FetchedRows, Gap[Any]]]) -> Iterable[object]:
        """What there is for each of some gaps, in their order, from any thread; `Failed` where asking failed.

        Where it is not to go on after a failure, that may be the last. What it raises is a failure at each gap that has no answer yet.
        """
        ...

    def append(self, asked: FetchedRows, answer: object) -> AppendReport | None:
        """Append an answer, less the rows of covered buckets, in the thread of the fill; None where it holds no rows.

        Raises as `Asked.rows_of`, and as an append does.
        """
        ...


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer for a gap at which asking failed."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Fetched:
    """A source that is a function of the caller's, called in this process."""

    fetch: Fetch
    add: Callable[[Batches], AppendReport]
    """Append rows, leaving out those of covered buckets."""

    def __post_init__(self) -> None:
        check_fetch(self.fetch)

    def ask(self, gaps: Sequence[tuple[FetchedRows, Gap[Any]]]) -> Iterator[object]:
        """See `Source.ask`."""
        return (self.fetch(gap.identity, gap.start, gap.end) for _, gap in gaps)

    def append(self, asked: FetchedRows, answer: object) -> AppendReport | None:
        """See `Source.append`."""
        rows = asked.rows_of(answer)
        return None if rows is None else self.add(rows)


def check_fetch(fetch: object) -> None:
    """Raise InvalidOption for what cannot be called."""
    if not callable(fetch):
        raise InvalidOption(
            f"fetch={fetch!r} cannot be called",
            fix="Pass a function of (identity, start, end)",
            option="fetch",
            value=fetch,
        )


@dataclass(frozen=True, slots=True)
class FailedGap:
    """A gap that was asked for and not filled, and why."""

    gap: Gap[Any]
    reason: str
    """The error's class and text."""


class GapOptions(TypedDict, total=False):
    """Options of every fill: what is expected, as `table.coverage` takes it, and how gaps are asked for."""

    entity: Mapping[str, object] | None
    identities: Iterable[object] | None
    calendar: str | Calendar | None
    max_buckets: int | None
    progress: Done | None
    on_error: str


class FillOptions(GapOptions, total=False):
    """Options of `table.fill`."""

    max_workers: int


GAP_DEFAULTS: GapOptions = {
    "entity": None, "identities": None, "calendar": None, "max_buckets": None, "progress": None, "on_error": "raise",
}  # fmt: skip
FILL_DEFAULTS: FillOptions = {**GAP_DEFAULTS, "max_workers": 1}


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
    published: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As in `AppendReport`."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """One fill of one table."""

    source: Source
    question: Coverage[Any]
    """What is covered and what is missing at the start."""
    covered: Callable[[], tuple[int, CoverageMap]]
    """The table's version, and what it now covers of the question's identities."""
    meta: Callable[[], tuple[IndexSpec, pa.Schema | None]]
    """The table's index and schema as they now are."""
    max_buckets: int | None = None
    max_workers: int = 1
    most_together: int = 1
    """How many gaps the source may be asked for in one call, where there are many."""
    on_error: str = "raise"

    def __post_init__(self) -> None:
        workers: object = self.max_workers
        if not isinstance(workers, int) or workers < 1:
            raise InvalidOption(
                f"max_workers={workers!r} is no number of threads",
                fix="Pass 1 or more",
                option="max_workers",
                value=workers,
            )
        one_of("on_error", self.on_error, ON_ERROR)

    def run(self, progress: Done | None = None) -> FillReport:
        """Ask for every gap and append each answer as it comes, each as one commit, in this thread.

        Raises FillStopped at the first error, once what was being fetched then is appended too; with `on_error="continue"` only where
        the table, and not the answer, is the matter.
        """
        parts = list(self.question.missing(self.max_buckets))
        so_far = _SoFar()
        asking = takewhile(lambda _: so_far.stopped is None, parts)
        for part, answer in self._answers(_groups(asking, self._size(len(parts)))):
            so_far.asked += 1
            self._take(part, answer, so_far)
            if progress is not None:
                progress(so_far.asked, len(parts))
        report = self._report(so_far)
        if so_far.stopped is not None:
            part, cause = so_far.stopped
            raise self._stopped(part, cause, report, len(parts)) from cause
        return report

    def _size(self, parts: int) -> int:
        """How many parts make a group: so few that each worker has some groups to take in turn."""
        return max(1, min(self.most_together, parts // (_TURNS * self.max_workers)))

    def _answers(self, groups: Iterable[list[_Part]]) -> Iterator[tuple[_Part, object]]:
        """Each part with what the source has for it, in the order in which they come."""
        if self.max_workers == 1:
            yield from chain.from_iterable(map(self._ask, groups))
            return
        pool = ThreadPoolExecutor(self.max_workers, thread_name_prefix="gapless-fill")
        left, running = iter(groups), set[Future[list[tuple[_Part, object]]]]()
        try:
            while True:
                running |= {pool.submit(self._ask, group) for group in islice(left, self.max_workers - len(running))}
                if not running:
                    return
                # The pool goes on fetching while answers are appended: at most as many again wait for their turn.
                come, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(self._ask, group) for group in islice(left, self.max_workers - len(running))}
                for future in come:
                    yield from future.result()
        finally:
            # Not waited for: after Ctrl-C a fetch may take its time, and nobody will append what it brings.
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, group: Sequence[_Part]) -> list[tuple[_Part, object]]:
        answers: list[object] = []
        try:
            for answer in self.source.ask([(self._asked(part), self.question.gap(*part)) for part in group]):
                answers.append(answer)  # noqa: PERF402  # what came before an error is kept
        except Exception as error:  # noqa: BLE001  # fetch is the caller's: whatever it raises goes into the report
            answers += [Failed(error)] * (len(group) - len(answers))
        return list(zip(group, answers, strict=False))

    def _take(self, part: _Part, answer: object, so_far: _SoFar) -> None:
        """Append an answer, or note why not."""
        try:
            if isinstance(answer, Failed):
                raise answer.error  # noqa: TRY301  # an answer that fails while it is read is treated alike
            report = self.source.append(self._asked(part), answer)
        except Exception as error:  # noqa: BLE001  # kept, and raised as the cause of FillStopped
            so_far.failed.append((part, error))
            if self.on_error == "raise" or not (isinstance(answer, Failed) or _is_of_answer(error)):
                so_far.stopped = so_far.stopped or (part, error)
        else:
            if report is None:
                so_far.empty.append(part)
                return
            so_far.rows += report.rows
            so_far.skipped_rows += report.skipped_rows

    def _asked(self, part: _Part) -> FetchedRows:
        index, schema = self.meta()
        return FetchedRows(identity=part[0], span=part[1], index=index, schema=schema, grid=self.question.grid)

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


def _groups(parts: Iterable[_Part], size: int) -> Iterator[list[_Part]]:
    """The parts, so many at a time, each taken when it is asked for."""
    left = iter(parts)
    return iter(lambda: list(islice(left, size)), [])


def _is_of_answer(error: Exception) -> bool:
    """Whether an error of an append is a matter of the rows, or of what they are read from, and not of the table."""
    return isinstance(error, DataError) or not isinstance(error, GaplessError)
