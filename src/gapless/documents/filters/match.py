"""Whether documents match filters, exactly as MongoDB has it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bson.regex import Regex

from gapless.documents.expressions.scope import NO_VARIABLES, Scope, is_true, scope_of
from gapless.documents.filters.operands import PATTERN_S, cut, too_long, whole
from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.paths import is_array, values_at
from gapless.documents.filters.tree import (
    All,
    At,
    Bits,
    Compares,
    Computed,
    Condition,
    Contains,
    Each,
    ElementIs,
    ElementMatches,
    Equals,
    Exists,
    HasSize,
    HasType,
    IsIn,
    Modulo,
    Neither,
    Not,
    Path,
    Pattern,
    Some,
    Test,
)
from gapless.documents.values.order import MISSING, Key, TypeOrder, sort_key, type_number

_ENDS = (TypeOrder.MIN_KEY, TypeOrder.MAX_KEY)


def matches(filter: Mapping[str, Any], document: Mapping[str, Any]) -> bool:  # noqa: A002  # as pymongo calls it
    """Whether a document matches a filter, as MongoDB's `find` takes it.

    Args:
        filter: Fields and what is asked of them: `{"age": {"$gte": 30}, "tags": "new"}`. Fields below others are named by dotted paths.
        document: A mapping of BSON values.

    Operators: `$eq $ne $gt $gte $lt $lte $in $nin $and $or $nor $not $exists $type $all $elemMatch $size $regex $options $mod
    $bitsAllSet $bitsAnySet $bitsAllClear $bitsAnyClear $expr $comment`. Regular expressions are those of the `regex` library.
    Raises InvalidFilter for an operator that is not known or an operand that it does not take, NotSupported for `$where`, `$text`, `$jsonSchema`
    and geometry, InvalidValue for a value that BSON does not have, or that an expression has no answer to.

    >>> matches({"age": {"$gte": 30}, "tags": "new"}, {"age": 31, "tags": ["old", "new"]})
    True
    """
    return matcher(filter)(document)


def matcher(filter: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:  # noqa: A002  # as pymongo calls it
    """`matches` of one filter, which is read once, for many documents. Raises as that."""
    return partial(holds, parse_filter(filter))


def holds(condition: Condition, document: Mapping[str, Any] | Sequence[Any], variables: Scope = NO_VARIABLES) -> bool:
    """Whether a condition holds of a document; of an array, as if its places were fields.

    `variables` are those of `$expr`. Raises InvalidFilter where a pattern takes too long, InvalidValue where an `$expr` has no answer.
    """
    match condition:
        case All(conditions):
            return all(holds(one, document, variables) for one in conditions)
        case Some(conditions):
            return any(holds(one, document, variables) for one in conditions)
        case Neither(conditions):
            return not any(holds(one, document, variables) for one in conditions)
        case Computed(expression):
            return is_true(expression(scope_of(document, variables)))
        case At(path, test):
            return _met(test, document, path)


def _met(test: Test, document: Mapping[str, Any] | Sequence[Any], path: Path) -> bool:
    """Whether what lies at a path meets a test."""
    match test:
        case Not(inner):
            return not _met(inner, document, path)
        case Each(tests):
            return all(_met(one, document, path) for one in tests)
        case Contains(tests):
            return bool(tests) and all(_met(one, document, path) for one in tests)
        case Exists(wanted):
            return wanted is any(value is not MISSING for value in values_at(document, path, into_arrays=False))
        case HasSize() | ElementIs() | ElementMatches():
            return any(value_meets(test, value) for value in values_at(document, path, into_arrays=False))
    return any(value_meets(test, value) for value in values_at(document, path, into_arrays=True))


def value_meets(test: Test, value: Any) -> bool:
    """Whether one value meets a test, as it is: elements of an array are not looked at, but by `$elemMatch`."""
    match test:
        case Equals(key):
            return sort_key(value) == key
        case Compares():
            return _compares(test, sort_key(value))
        case IsIn(keys, patterns):
            return sort_key(value) in keys or any(_found(one, value) for one in patterns)
        case Pattern():
            return _found(test, value)
        case HasType(numbers):
            return value is not MISSING and type_number(value) in numbers
        case Modulo(divisor, remainder):
            return (number := cut(value)) is not None and _remainder(number, divisor) == remainder
        case Bits():
            return _bits_are(test, value)
        case _:
            return _shape_meets(test, value)


def _shape_meets(test: Test, value: Any) -> bool:
    match test:
        case Not(inner):
            return not value_meets(inner, value)
        case Each(tests):
            return all(value_meets(one, value) for one in tests)
        case Contains(tests):
            return bool(tests) and all(value_meets(one, value) for one in tests)
        case Exists(wanted):
            return wanted is (value is not MISSING)
        case HasSize(size):
            return is_array(value) and len(value) == size
        case ElementIs() | ElementMatches():
            return is_array(value) and any(element_meets(test, one) for one in value)
        case _:
            raise AssertionError(test)


def element_meets(test: ElementIs | ElementMatches, element: Any) -> bool:
    """Whether one element of an array is what an `$elemMatch` looks for."""
    if isinstance(test, ElementIs):
        return value_meets(test.test, element)
    return (isinstance(element, Mapping) or is_array(element)) and holds(test.condition, element)


def _compares(test: Compares, key: Key) -> bool:
    wanted = test.key
    if key[0] != wanted[0] and wanted[0] not in _ENDS:
        return False
    if key[0] == wanted[0] and (_is_nan(key) or _is_nan(wanted)):
        return test.by in ("$gte", "$lte") and key == wanted
    match test.by:
        case "$gt":
            return key > wanted
        case "$gte":
            return key >= wanted
        case "$lt":
            return key < wanted
        case _:
            return key <= wanted


def _is_nan(key: Key) -> bool:
    return key[0] is TypeOrder.NUMBER and key[1] == 0


def _found(pattern: Pattern, value: Any) -> bool:
    key = sort_key(value)
    if key[0] is TypeOrder.REGEX:
        return key == sort_key(Regex(pattern.text, pattern.options))
    if key[0] is not TypeOrder.STRING:
        return False
    try:
        return pattern.compiled.search(value, timeout=PATTERN_S) is not None
    except TimeoutError as error:
        raise too_long(pattern) from error


def _remainder(number: int, divisor: int) -> int:
    """With the sign of the number that is divided, as C has it."""
    found = abs(number) % abs(divisor)
    return -found if number < 0 else found


def _bits_are(test: Bits, value: Any) -> bool:
    if isinstance(value, bytes):
        bits = int.from_bytes(value, "little")
    else:
        number = whole(value)
        if number is None:
            return False
        bits = number
    # Python shifts negative numbers as if their sign went on for ever, which is what MongoDB does with places beyond 63.
    found = (bool(bits >> place & 1) is test.set for place in test.positions)
    return all(found) if test.every else any(found)
