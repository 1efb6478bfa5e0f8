"""`$setWindowFields`: fields that are gathered of the documents around each one. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from gapless.documents.aggregation.fields import Parse
from gapless.documents.aggregation.gathering import Gather
from gapless.documents.aggregation.groups import ACCUMULATORS, parse_gather
from gapless.documents.aggregation.operands import named, path, with_at
from gapless.documents.aggregation.stages import Document, Parsing, Running, Stage, wrong_stage
from gapless.documents.expressions.date_steps import UNITS, later
from gapless.documents.expressions.operands import wrong_value
from gapless.documents.expressions.scope import Constant, Evaluate, scope_of
from gapless.documents.filters.operands import whole
from gapless.documents.filters.paths import is_array
from gapless.documents.filters.tree import Path
from gapless.documents.find.sort import Sort, order_key, parse_sort, place_of, sort_bytes
from gapless.documents.spill.sorter import Sorter
from gapless.documents.spill.spool import Spool
from gapless.documents.values.dates import from_milliseconds, is_date, milliseconds_of
from gapless.documents.values.numbers import is_number, whole_number
from gapless.documents.values.order import MISSING, sort_key
from gapless.documents.values.order_bytes import order_bytes
from gapless.documents.values.sums import Sum
from gapless.errors import NotSupported


class Rows(Protocol):
    """The documents of a partition, in their order."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Document]: ...


Values = Callable[[Rows, Running], list[Any]]
"""Of the documents of a partition, in their order, the value of a field of each."""
Bounds = Callable[[Rows], Iterator[tuple[int, int]]]
"""Of the documents of a partition where the window of each begins and ends."""
_RANKS = ("$rank", "$denseRank", "$documentNumber")
_NOT_BUILT = (
    "$derivative", "$integral", "$expMovingAvg", "$covariancePop", "$covarianceSamp", "$linearFill", "$locf", "$minMaxScaler",
)  # fmt: skip
_STAGE = "$setWindowFields"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFields(Stage):
    """`$setWindowFields`. It holds in memory what is gathered for the documents of one partition.

    A window costs as many steps as documents are in it; one that begins where the one before did, as many as are new in it.
    """

    partition: Evaluate
    by: Sort
    output: Mapping[Path, Values]

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`. Raises InvalidValue where documents are divided by an array, or a range has no number."""
        with Sorter(at.memory) as sorter:
            for one in documents:
                partition = self._partition(one, at)
                # No key of one value begins that of another.
                sorter.add(partition + sort_bytes(one, self.by), (partition, one))
            for _, group in groupby((row for _, row in sorter), key=lambda row: row[0]):
                with Spool(at.memory) as rows:
                    for _, one in group:
                        rows.add(one)
                    columns = {to: values(rows, at) for to, values in self.output.items()}
                    for place, one in enumerate(rows):
                        found = one
                        for to, values in columns.items():
                            found = with_at(found, to, values[place])
                        yield found

    def _partition(self, document: Document, at: Running) -> bytes:
        value = self.partition(scope_of(document, at.variables))
        if is_array(value):
            raise wrong_value(_STAGE, value, "a value that is no array as partitionBy")
        return order_bytes(sort_key(value))


def _window_fields(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    options = named(stage, given, ("output",), ("partitionBy", "sortBy"))
    by = parse_sort(options.get("sortBy"))
    output = options["output"]
    if not isinstance(output, Mapping) or not output:
        raise wrong_stage(stage, output, "output is a mapping of fields to operators", "Pass {'total': {'$sum': '$n'}}")
    return (
        WindowFields(
            partition=at.expression(options.get("partitionBy")),
            by=by,
            output={path(stage, name): _field(one, by, at) for name, one in output.items()},
        ),
    )


def _field(given: Any, by: Sort, at: Parsing) -> Values:
    operators = [name for name in given if name != "window"] if isinstance(given, Mapping) else []
    if len(operators) != 1:
        raise wrong_stage(_STAGE, given, "A field has one operator, and a window", "Pass {'$sum': '$n', 'window': {…}}")
    (operator,) = operators
    if operator in _NOT_BUILT:
        raise NotSupported(
            f"{operator} is not supported in {_STAGE}",
            why="It is not built",
            fix=f"Use {', '.join((*_RANKS, '$shift', *ACCUMULATORS[:4]))} and other accumulators",
            feature=operator,
        )
    if operator in (*_RANKS, "$shift"):
        if "window" in given or not by:
            raise wrong_stage(_STAGE, given, f"{operator} takes no window, and wants sortBy", "Say sortBy, and no window")
        return _shift(given[operator], at) if operator == "$shift" else _rank(operator, given[operator], by)
    gather = parse_gather({operator: given[operator]}, at)
    return _gathered(gather, _window(given["window"], by, at) if "window" in given else None)


def _rank(operator: str, given: Any, by: Sort) -> Values:
    if given != {}:
        raise wrong_stage(_STAGE, given, f"{operator} takes nothing", f"Pass {{{operator!r}: {{}}}}")

    def ranks(rows: Rows, at: Running) -> list[Any]:  # noqa: ARG001  # as every `Values`
        found: list[Any] = []
        before, rank, dense = None, 0, 0
        for number, one in enumerate(rows, start=1):
            key = order_key(one, by)
            if number == 1 or key != before:
                before, rank, dense = key, number, dense + 1
            found.append({"$rank": rank, "$denseRank": dense, "$documentNumber": number}[operator])
        return list(map(whole_number, found))

    return ranks


def _shift(given: Any, at: Parsing) -> Values:
    options = named(_STAGE, given, ("output", "by"), ("default",))
    output, by, default = at.expression(options["output"]), whole(options["by"]), at.expression(options.get("default"))
    if by is None or not isinstance(default, Constant):
        raise wrong_stage(
            _STAGE, given, "by is a whole number, and default the same for all", "Pass {'output': '$n', 'by': -1}"
        )

    def shifted(rows: Rows, running: Running) -> list[Any]:
        values = [output(scope_of(one, running.variables)) for one in rows]
        places = (place + by for place in range(len(rows)))
        found = (values[place] if 0 <= place < len(rows) else default.value for place in places)
        return [None if one is MISSING else one for one in found]

    return shifted


def _gathered(gather: Gather, bounds: Bounds | None) -> Values:
    def values(rows: Rows, at: Running) -> list[Any]:
        taken = [gather.value(scope_of(one, at.variables)) for one in rows]
        state = gather.fresh(scope_of({}, at.variables))
        if bounds is None:
            for one in taken:
                state.add(one)
            return [state.result()] * len(rows)
        found: list[Any] = []
        begin = end = 0
        for first, last in bounds(rows):
            if first != begin or last < end:
                state, end = gather.fresh(scope_of({}, at.variables)), first
            for one in taken[end:last]:
                state.add(one)
            begin, end = first, max(last, end)
            # The same state goes on where the next window begins where this one did.
            found.append(copy(state.result()))
        return found

    return values


# -- windows -----------------------------------------------------------------------------------------------------------


def _window(given: Any, by: Sort, at: Parsing) -> Bounds | None:  # noqa: ARG001  # as it is asked
    options = named(_STAGE, given, (), ("documents", "range", "unit"))
    if not options:
        return None
    kind = next((name for name in ("documents", "range") if name in options), "")
    if not kind or ("documents" in options and len(options) > 1):
        raise wrong_stage(_STAGE, given, "A window is of documents, or of a range with a unit", "Pass {'documents': [-1, 0]}")
    pair = options[kind]
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(_is_bound(one, kind) for one in pair):
        raise wrong_stage(
            _STAGE, pair, "A window has two ends: numbers, 'current' or 'unbounded'", "Pass ['unbounded', 'current']"
        )
    if not by:
        raise wrong_stage(_STAGE, given, "A window wants an order", "Say sortBy")
    lower, upper = (None if one == "unbounded" else 0 if one == "current" else one for one in pair)
    if kind == "documents":
        return _of_documents(lower, upper)
    unit = options.get("unit")
    if len(by) != 1 or by[0][1] or (unit is not None and unit not in UNITS):
        raise wrong_stage(
            _STAGE, given, f"A range wants one field, upwards, and a unit out of {', '.join(UNITS)}", "Say sortBy so"
        )
    return _of_range(lower, upper, by, unit)


def _is_bound(value: Any, kind: str) -> bool:
    if value in ("current", "unbounded"):
        return True
    return is_number(value) and (kind == "range" or whole(value) is not None)


def _of_documents(lower: int | None, upper: int | None) -> Bounds:
    def bounds(rows: Rows) -> Iterator[tuple[int, int]]:
        for place in range(len(rows)):
            start = 0 if lower is None else max(0, place + int(lower))
            end = len(rows) if upper is None else max(start, min(len(rows), place + int(upper) + 1))
            yield start, end

    return bounds


def _of_range(lower: Any, upper: Any, by: Sort, unit: str | None) -> Bounds:
    ((at, _),) = by

    def bounds(rows: Rows) -> Iterator[tuple[int, int]]:
        keys = [place_of(one, at, descending=False) for one in rows]
        for one in rows:
            value: Any = one
            for name in at:
                value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
            start = 0 if lower is None else bisect_left(keys, sort_key(_moved(value, lower, unit)))
            end = len(keys) if upper is None else bisect_right(keys, sort_key(_moved(value, upper, unit)))
            yield start, max(start, end)

    return bounds


def _moved(value: Any, by: Any, unit: str | None) -> Any:
    if unit is not None:
        if not is_date(value):
            raise wrong_value(_STAGE, value, "a date, since the range has a unit")
        return from_milliseconds(later(_STAGE, milliseconds_of(value), unit, int(by)))
    if not is_number(value):
        raise wrong_value(_STAGE, value, "a number, since the range has no unit")
    total = Sum()
    total.add(value)
    total.add(by)
    return total.result()


WINDOW_STAGES: Mapping[str, Parse] = {_STAGE: _window_fields}
