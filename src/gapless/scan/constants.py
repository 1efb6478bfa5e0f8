"""Comparisons whose sides are both known."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from gapless.model.instant import NS_PER_DAY
from gapless.model.stats import Bound
from gapless.scan.predicate import Op, Value

_TESTS: dict[Op, Callable[[int], bool]] = {
    "=": lambda sign: sign == 0, "!=": lambda sign: sign != 0, "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0, ">": lambda sign: sign > 0, ">=": lambda sign: sign >= 0,
}  # fmt: skip


def holds(op: Op, left: Bound, right: Bound) -> bool:
    """`left op right` of two values of one kind: exact, NaN equal to itself and above every number."""
    return _TESTS[op](_sign(left, right))


def _sign(left: Any, right: Any) -> int:  # values of one kind, which mypy cannot see
    nan, other_nan = is_nan(left), is_nan(right)
    if nan or other_nan:
        return nan - other_nan
    return int(left > right) - int(left < right)


def is_nan(value: Bound | None) -> bool:
    """Whether a value is the floating NaN."""
    return isinstance(value, float) and math.isnan(value)


def compare_values(op: Op, left: Value, right: Value) -> bool | None:
    """Answer a comparison of two literals; raises ValueError where their kinds differ."""
    if left.value is None or right.value is None:
        return None
    if left.kind == right.kind:
        return holds(op, left.value, right.value)
    if {left.kind, right.kind} == {"date", "timestamp"}:
        return holds(op, _ns(left), _ns(right))
    raise ValueError(f"{left.value!r} is of kind {left.kind}, and {right.value!r} is of kind {right.kind}")


def _ns(value: Value) -> int:
    number = value.value
    if not isinstance(number, int):
        raise TypeError("dates and times are ints")
    return number * NS_PER_DAY if value.kind == "date" else number


def same_kind(left: Bound, right: Bound) -> bool:
    """Whether two bounds can be compared: both texts, both bytes, both booleans or both numbers."""
    if type(left) is type(right):
        return True
    for kind in (str, bytes, bool):
        if isinstance(left, kind) or isinstance(right, kind):
            return isinstance(left, kind) and isinstance(right, kind)
    return isinstance(left, int | float | Decimal) and isinstance(right, int | float | Decimal)
