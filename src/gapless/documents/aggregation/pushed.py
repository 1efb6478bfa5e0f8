"""Groups and orders that the columns of indexed paths tell exactly: what is asked of them, as SQL, and what comes out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson.int64 import Int64

from gapless.documents.aggregation.gathering import Gather
from gapless.documents.aggregation.groups import Group
from gapless.documents.aggregation.stages import Document
from gapless.documents.expressions.scope import CURRENT, ROOT, Constant, Evaluate, FieldPath
from gapless.documents.filters.prune import Literals
from gapless.documents.filters.tree import Path
from gapless.documents.values.codec import ID
from gapless.documents.values.dates import from_milliseconds
from gapless.documents.values.numbers import fitting, whole_number
from gapless.documents.values.order import MISSING
from gapless.predicate import predicate as sql
from gapless.predicate.predicate import Predicate

DOUBLE, INT, LONG = 1, 16, 18
KINDS = (INT, LONG, DOUBLE)
_FIELDS = ("number", "kind", "text", "date")
_OF_PATHS = ("$sum", "$avg", "$min", "$max")
SEEN = "seen"
ROWS = "documents"
"""What the SQL calls the rows: for each path the columns of `source_names`, and `seen`, the row's number."""


@dataclass(frozen=True, slots=True)
class Counted:
    """`$count`, or `$sum` of one whole number."""

    each: int

    def document_value(self, count: int) -> Any:
        """What a group of so many documents has."""
        return fitting(self.each * count, self.each)


@dataclass(frozen=True, slots=True)
class OfPath:
    """`$sum`, `$avg`, `$min` or `$max` of a path, by the column that tells of it."""

    operator: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedGroup:
    """A `$group` over columns."""

    key: str | None
    """The column of what is grouped by; None where all documents are of one group."""
    value: Any
    """What that one group is called."""
    fields: Mapping[str, Counted | OfPath]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        keys = () if self.key is None else (self.key,)
        return tuple(dict.fromkeys([*keys, *(one.column for one in self.fields.values() if isinstance(one, OfPath))]))

    @property
    def valued(self) -> tuple[str, ...]:
        """Those of which values come out, so that their numbers have to be of one type."""
        keys = () if self.key is None else (self.key,)
        extremes = (one.column for one in self.fields.values() if isinstance(one, OfPath) and one.operator in ("$min", "$max"))
        return tuple(dict.fromkeys([*keys, *extremes]))

    @property
    def added(self) -> tuple[str, ...]:
        """Those whose numbers are added, so that none may be a double: sums of these depend on their order."""
        found = (one.column for one in self.fields.values() if isinstance(one, OfPath) and one.operator in ("$sum", "$avg"))
        return tuple(dict.fromkeys(found))


def pushed_group(group: Group, columns: Mapping[Path, str]) -> PushedGroup | None:
    """A `$group` as columns can answer it; None where they cannot."""
    key = _column(group.by, columns)
    if key is None and not isinstance(group.by, Constant):
        return None
    fields: dict[str, Counted | OfPath] = {}
    for name, gather in group.fields.items():
        found = _field(gather, columns)
        if found is None:
            return None
        fields[name] = found
    value = group.by.value if isinstance(group.by, Constant) else None
    return PushedGroup(key=key, value=None if value is MISSING else value, fields=fields)


def _column(value: Evaluate, columns: Mapping[Path, str]) -> str | None:
    if isinstance(value, FieldPath) and value.variable in (CURRENT, ROOT):
        return columns.get(value.path)
    return None


def _field(gather: Gather, columns: Mapping[Path, str]) -> Counted | OfPath | None:
    if gather.operator == "$count":
        return Counted(1)
    if gather.operator == "$sum" and isinstance(gather.value, Constant) and type(gather.value.value) in (int, Int64):
        return Counted(gather.value.value)
    column = _column(gather.value, columns)
    return OfPath(gather.operator, column) if gather.operator in _OF_PATHS and column is not None else None


# -- what has to hold --------------------------------------------------------------------------------------------------


def not_of_kind(column: str, kind: int) -> Predicate:
    """That a number lies there that is of another type."""
    return sql.Comparison(op="!=", left=Literals.of(column).kind, right=sql.Value(kind="number", value=kind))


def is_double(column: str) -> Predicate:
    """That a double lies there."""
    return sql.Comparison(op="=", left=Literals.of(column).kind, right=sql.Value(kind="number", value=DOUBLE))


# -- the query ---------------------------------------------------------------------------------------------------------


def source_names(columns: Sequence[str]) -> list[tuple[str, str, str]]:
    """Of each source column the collection's column, its field, and the name."""
    return [(column, field, f"{field}{at}") for at, column in enumerate(columns) for field in _FIELDS]


def order_query(by: Sequence[tuple[int, bool]], most: int) -> str:
    """The SQL: the numbers of the first documents in an order of source columns, each with whether the greatest comes first."""
    terms: list[str] = []
    for at, descending in by:
        way = "DESC" if descending else "ASC"
        # By type first: null and missing, numbers, texts, dates. Of one type the fields of the others are null.
        terms.append(
            f"CASE WHEN number{at} IS NOT NULL THEN 1 WHEN text{at} IS NOT NULL THEN 2 WHEN date{at} IS NOT NULL THEN 3 ELSE 0 END {way}"
        )
        terms += [f"{field}{at} {way}" for field in ("number", "text", "date")]
    # Of our own names alone.
    return f"SELECT seen FROM {ROWS} ORDER BY {', '.join(terms)}, seen LIMIT {most}"  # noqa: S608


def query_of(group: PushedGroup) -> str:
    """The SQL: of each group the key's number, text and date, how many documents it has, and what each of its fields wants."""
    places = {column: at for at, column in enumerate(group.columns)}
    keys = [] if group.key is None else [f"{name}{places[group.key]}" for name in ("number", "text", "date")]
    found = [*keys, "count(*)"]
    for one in group.fields.values():
        if isinstance(one, Counted):
            continue
        at = places[one.column]
        if one.operator in ("$sum", "$avg"):
            found += [f"sum(CAST(number{at} AS HUGEINT))", f"count(number{at})", f"coalesce(bool_or(kind{at} = {LONG}), false)"]
        else:
            found += [f"{one.operator[1:]}({name}{at})" for name in ("number", "text", "date")]
    by = f"GROUP BY {', '.join(keys)}" if keys else ""
    # Of our own names alone.
    return f"SELECT {', '.join(found)} FROM {ROWS} {by} HAVING count(*) > 0 ORDER BY min(seen)"  # noqa: S608


def document_of(group: PushedGroup, row: Sequence[Any], kinds: Mapping[str, int]) -> Document:
    """The document of a group; `kinds` are the types of the numbers in `valued` columns."""
    values = iter(row)
    key = group.value if group.key is None else _value(next(values), next(values), next(values), kinds[group.key])
    count = next(values)
    found: Document = {ID: key}
    for name, one in group.fields.items():
        if isinstance(one, Counted):
            found[name] = one.document_value(count)
        elif one.operator in ("$sum", "$avg"):
            total, numbers, is_long = next(values) or 0, next(values), next(values)
            found[name] = _added(one.operator, total, numbers, is_long=is_long)
        else:
            found[name] = _extreme(one.operator, (next(values), next(values), next(values)), kinds[one.column])
    return found


def _added(operator: str, total: int, numbers: int, *, is_long: bool) -> Any:
    if operator == "$sum":
        return fitting(total, narrow=not is_long)
    return float(total) / numbers if numbers else None


def _extreme(operator: str, found: tuple[Any, Any, Any], kind: int) -> Any:
    """Of the extremes of each type the one whose type comes first, or last."""
    number, text, date = found
    if operator == "$max":
        number, text = (None if date is not None or text is not None else number), (None if date is not None else text)
    else:
        text, date = (None if number is not None else text), (None if number is not None or text is not None else date)
    return _value(number, text, date, kind)


def _value(number: float | None, text: str | None, date: int | None, kind: int) -> Any:
    if number is not None:
        return number if kind == DOUBLE else whole_number(int(number)) if kind == INT else Int64(int(number))
    if text is not None:
        return text
    return None if date is None else from_milliseconds(date // 1_000)
