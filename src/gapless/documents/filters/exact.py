"""What of a filter the columns of a collection tell exactly: a predicate that is true of just the rows whose documents match. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gapless.documents.filters.prune import ID, ID_PATH, LITERAL_START, Literals, bound
from gapless.documents.filters.tree import (
    All,
    At,
    Compares,
    Comparison,
    Condition,
    Contains,
    Each,
    ElementIs,
    ElementMatches,
    Equals,
    HasSize,
    HasType,
    IsIn,
    Neither,
    Not,
    Path,
    Pattern,
    Some,
    Test,
)
from gapless.documents.values.identity import key_text
from gapless.documents.values.order import Key, TypeOrder
from gapless.predicate import predicate as sql
from gapless.predicate.predicate import Predicate

_NEVER, _ALWAYS = sql.Constant(value=False), sql.Constant(value=True)
_OPS: Mapping[Comparison, sql.Op] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_STRICT: Mapping[Comparison, tuple[sql.Op, sql.Op]] = {
    "$gt": (">", ">="),
    "$gte": (">", ">="),
    "$lt": ("<=", "<"),
    "$lte": ("<=", "<"),
}
"""Of a number that is no double: how doubles compare with the nearest one, where that is less, and where it is greater."""
_STRING, _DATE, _NUMBERS = 2, 9, frozenset((1, 16, 18))
_NULL = 10
_ZERO = sql.Value(kind="number", value=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A predicate that is true of a row if, and only if, its document matches: of rows of which some columns tell all."""

    predicate: Predicate
    columns: tuple[str, ...]
    """Those columns."""

    @property
    def plain(self) -> Predicate:
        """That a document matches, and that the columns tell so."""
        return conjunction([self.predicate, *map(tells, self.columns)])

    @property
    def elsewhere(self) -> Predicate:
        """That the columns tell nothing of a document."""
        return disjunction([tells_not(one) for one in self.columns])


def to_exact(condition: Condition, columns: Mapping[Path, str]) -> Exact | None:
    """The exact predicate of a filter that was parsed; None where the columns do not tell.

    `columns` are those of indexed paths, as for `to_predicate`.
    """
    found = _exact(condition, columns)
    if found is None:
        return None
    return Exact(predicate=found, columns=tuple(dict.fromkeys(columns[path] for path in _paths(condition) if path in columns)))


def _paths(condition: Condition) -> Iterator[Path]:
    match condition:
        case At(path, _):
            yield path
        case All(conditions) | Some(conditions) | Neither(conditions):
            for one in conditions:
                yield from _paths(one)


def tells(column: str) -> Predicate:
    """That a column tells what lies at its path: a number as it was written, a text, a date, or nothing."""
    other, kind = sql.Column(path=(column, "other")), Literals.of(column).kind
    told = sql.Or(terms=(sql.IsNull(operand=kind), sql.Comparison(op=">", left=kind, right=_ZERO)))
    return sql.And(terms=(sql.IsNull(operand=other), told))


def tells_not(column: str) -> Predicate:
    """That it does not."""
    other, kind = sql.Column(path=(column, "other")), Literals.of(column).kind
    return sql.Or(terms=(sql.Not(term=sql.IsNull(operand=other)), sql.Comparison(op="<", left=kind, right=_ZERO)))


def conjunction(parts: Sequence[Predicate]) -> Predicate:
    """All of some predicates."""
    told = tuple(one for one in parts if one != _ALWAYS)
    return _NEVER if _NEVER in told else _ALWAYS if not told else told[0] if len(told) == 1 else sql.And(terms=told)


def disjunction(parts: Sequence[Predicate]) -> Predicate:
    """At least one of some predicates."""
    told = tuple(one for one in parts if one != _NEVER)
    return _ALWAYS if _ALWAYS in told else _NEVER if not told else told[0] if len(told) == 1 else sql.Or(terms=told)


def _exact(condition: Condition, columns: Mapping[Path, str]) -> Predicate | None:
    match condition:
        case All(conditions):
            return _every([_exact(one, columns) for one in conditions])
        case Some(conditions):
            return _any([_exact(one, columns) for one in conditions])
        case Neither(conditions):
            return _negated(_any([_exact(one, columns) for one in conditions]))
        case At(path, test) if path == ID_PATH:
            return _of_id(test)
        case At(path, test) if path in columns:
            return _of_path(test, Literals.of(columns[path]))
    return None


def _every(parts: Sequence[Predicate | None]) -> Predicate | None:
    return None if None in parts else conjunction([one for one in parts if one is not None])


def _any(parts: Sequence[Predicate | None]) -> Predicate | None:
    return None if None in parts else disjunction([one for one in parts if one is not None])


def _negated(part: Predicate | None) -> Predicate | None:
    if part is None or isinstance(part, sql.Constant):
        return None if part is None else sql.Constant(value=not part.value)
    # No part is null for a row: comparisons say that there is something to compare.
    return sql.Not(term=part)


def _of_id(test: Test) -> Predicate | None:
    match test:
        case Equals(key):
            return sql.Comparison(op="=", left=ID, right=sql.Value(kind="text", value=key_text(key)))
        case IsIn(keys, ()):
            texts = sorted(map(key_text, keys))
            return sql.In(operand=ID, values=tuple(sql.Value(kind="text", value=one) for one in texts)) if texts else _NEVER
        case Each(tests):
            return _every([_of_id(one) for one in tests])
        case Not(one):
            return _negated(_of_id(one))
    return None


def _of_path(test: Test, column: Literals) -> Predicate | None:
    """Of a row whose column tells: a number, a text, a date, or null or missing."""
    match test:
        case Equals(key):
            return _equal(key, column)
        case IsIn(keys, ()):
            return disjunction([_equal(key, column) for key in sorted(keys)])
        case Compares(by, key):
            return _side(by, key, column)
        case Pattern(text, "") if (found := LITERAL_START.fullmatch(text)) is not None:
            return _there(column.text, sql.StartsWith(operand=column.text, prefix=found.group(1)))
        case HasSize() | ElementIs() | ElementMatches():
            return _NEVER
        case HasType(numbers) if _NULL not in numbers:
            return _typed(numbers, column)
        case Each(tests):
            return _every([_of_path(one, column) for one in tests])
        case Contains(tests):
            return _every([_of_path(one, column) for one in tests]) if tests else _NEVER
        case Not(one):
            return _negated(_of_path(one, column))
    return None


def _there(column: sql.Column, predicate: Predicate) -> Predicate:
    """A predicate that is false, not null, where a column has no value."""
    return sql.And(terms=(sql.Not(term=sql.IsNull(operand=column)), predicate))


def _nothing(column: Literals) -> Predicate:
    return sql.And(terms=tuple(sql.IsNull(operand=one) for one in (column.number, column.text, column.date)))


def _equal(key: Key, column: Literals) -> Predicate:
    if key[0] is TypeOrder.NULL:
        return _nothing(column)
    found = bound(key)
    if found is None or (found.kind == "number" and found.value != key[2]):
        # A value of another type, or a number that is no double: it lies elsewhere.
        return _NEVER
    return _there(column.of_value(found), sql.Comparison(op="=", left=column.of_value(found), right=found))


def _side(by: Comparison, key: Key, column: Literals) -> Predicate | None:
    match key[0]:
        case TypeOrder.NULL:
            return _nothing(column) if by in ("$gte", "$lte") else _NEVER
        case TypeOrder.MIN_KEY | TypeOrder.MAX_KEY:
            return None
        case TypeOrder.NUMBER if key[1] == 0:
            # NaN, which lies elsewhere, is beside no other number.
            return _NEVER
    found = bound(key)
    if found is None:
        return None if key[0] in (TypeOrder.NUMBER, TypeOrder.DATE) else _NEVER
    op = _OPS[by]
    if found.kind == "number":
        value: int | float | Decimal = key[2]
        nearest = float(value)
        assert math.isfinite(nearest)
        if nearest != value:
            op = _STRICT[by][nearest > value]
    return _there(column.of_value(found), sql.Comparison(op=op, left=column.of_value(found), right=found))


def _typed(numbers: frozenset[int], column: Literals) -> Predicate:
    parts: list[Predicate] = []
    if some := sorted(numbers & _NUMBERS):
        kinds = sql.In(operand=column.kind, values=tuple(sql.Value(kind="number", value=one) for one in some))
        parts.append(_there(column.kind, kinds))
    parts += [sql.Not(term=sql.IsNull(operand=column.text))] if _STRING in numbers else []
    parts += [sql.Not(term=sql.IsNull(operand=column.date))] if _DATE in numbers else []
    return disjunction(parts)
