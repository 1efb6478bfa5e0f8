"""Operands of query operators, read and checked. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import regex
from bson.decimal128 import Decimal128
from bson.regex import Regex

from gapless.documents.filters.tree import Bits, HasType, Modulo, Pattern
from gapless.documents.values.order import pattern_of
from gapless.errors import InvalidFilter, nearest

TYPE_ALIASES: Mapping[str, int] = {
    "minKey": -1, "double": 1, "string": 2, "object": 3, "array": 4, "binData": 5, "undefined": 6, "objectId": 7, "bool": 8, "date": 9,
    "null": 10, "regex": 11, "dbPointer": 12, "javascript": 13, "symbol": 14, "javascriptWithScope": 15, "int": 16, "timestamp": 17,
    "long": 18, "decimal": 19, "maxKey": 127,
}  # fmt: skip
"""BSON's types by the names that `$type` takes."""
PATTERN_S = 5.0
"""For how long a regular expression may look through one text."""
_NUMBER = "number"
_NUMBERS = (1, 16, 18, 19)
_INT64 = 1 << 63
_LETTERS = "imsx"
_IGNORED = "u"
"""MongoDB takes it, and its texts are Unicode anyway."""


def invalid(operator: str, operand: object, why: str, fix: str) -> InvalidFilter:
    """The error for an operand that an operator does not take."""
    shown = repr(operand)
    return InvalidFilter(
        f"{operator} does not take {shown if len(shown) <= 80 else f'{shown[:77]}…'}", why=why, fix=fix, where=operator
    )


def parse_type(operand: object) -> HasType:
    """`$type`: a number, an alias, or a list of them. Raises InvalidFilter."""
    given = operand if isinstance(operand, list | tuple) else [operand]
    if not given:
        raise invalid("$type", operand, "No type is named", "Name one, such as 'string'")
    numbers: set[int] = set()
    for one in given:
        if one == _NUMBER:
            numbers |= set(_NUMBERS)
        elif isinstance(one, str):
            if one not in TYPE_ALIASES:
                raise invalid("$type", one, "It is no type of BSON", nearest(one, [*TYPE_ALIASES, _NUMBER]))
            numbers.add(TYPE_ALIASES[one])
        elif (number := whole(one)) is not None and number in TYPE_ALIASES.values():
            numbers.add(number)
        else:
            raise invalid("$type", one, "Types are called by BSON's numbers or by names", "Pass 'string', 'number', 2, …")
    return HasType(frozenset(numbers))


def parse_size(operand: object) -> int:
    """`$size`: a whole number from 0. Raises InvalidFilter."""
    number = whole(operand)
    if number is None or number < 0:
        raise invalid("$size", operand, "It counts elements of an array", "Pass a whole number from 0")
    return number


def parse_mod(operand: object) -> Modulo:
    """`$mod`: a divisor and a remainder, each cut to a whole number. Raises InvalidFilter."""
    pair = list(operand) if isinstance(operand, list | tuple) else []
    numbers = [cut(one) for one in pair]
    if len(pair) != 2 or None in numbers:  # a pair
        raise invalid("$mod", operand, "It is a divisor and a remainder, both numbers of 64 bits", "Pass [4, 0]")
    divisor, remainder = numbers
    if not divisor:
        raise invalid("$mod", operand, "Nothing is divided by 0", "Pass another divisor")
    assert divisor is not None
    assert remainder is not None
    return Modulo(divisor, remainder)


def parse_bits(operator: str, operand: object) -> Bits:
    """`$bitsAllSet` and its like: a mask of at least 0, a list of places from 0, or bytes. Raises InvalidFilter."""
    every, is_set = operator.startswith("$bitsAll"), operator.endswith("Set")
    if isinstance(operand, list | tuple):
        places = [whole(one) for one in operand]
        if any(place is None or place < 0 for place in places):
            raise invalid(operator, operand, "A place is a whole number from 0", "Pass [0, 3]")
        return Bits(every, is_set, frozenset(place for place in places if place is not None))
    mask = int.from_bytes(operand, "little") if isinstance(operand, bytes) else whole(operand)
    if mask is None or mask < 0:
        raise invalid(operator, operand, "It is a mask of bits from 0, a list of places, or bytes", "Pass 9, or [0, 3]")
    return Bits(every, is_set, frozenset(_places(mask)))


def _places(mask: int) -> Iterable[int]:
    return (place for place in range(mask.bit_length()) if mask >> place & 1)


def parse_regex(operand: object, options: object = None) -> Pattern:
    """`$regex`, with the `$options` beside it, which stand instead of those of a compiled one. Raises InvalidFilter."""
    if isinstance(operand, Regex | re.Pattern):
        text, letters = pattern_of(operand)
    elif isinstance(operand, str):
        text, letters = operand, ""
    else:
        raise invalid("$regex", operand, "It is a text or a compiled pattern", "Pass '^ab', or re.compile('^ab')")
    if options is not None:
        if not isinstance(options, str):
            raise invalid("$options", options, "They are letters", "Pass a text of i, m, s and x")
        letters = options
    letters = "".join(sorted(set(letters) - set(_IGNORED)))
    if odd := letters.strip(_LETTERS):
        raise invalid("$options", letters, f"{odd!r} is none of the options of a regular expression", "Pass i, m, s and x")
    flags = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "x": regex.VERBOSE}
    given = regex.VERSION0
    for letter in letters:
        given |= flags[letter]
    try:
        compiled = regex.compile(text, given)
    except (regex.error, OverflowError, RecursionError) as error:
        raise invalid("$regex", text, f"It cannot be read: {error}", "Mend the expression") from error
    return Pattern(text, letters, compiled)


def too_long(pattern: Pattern) -> InvalidFilter:
    """The error for a regular expression that takes too long."""
    return InvalidFilter(
        f"the regular expression {pattern.text!r} looked through a text for {PATTERN_S:g} s",
        why="It tries too many ways to match it",
        fix="Say it without a repetition of what repeats",
        where=pattern.text,
    )


def parse_list(operator: str, operand: object) -> list[Any]:
    """The list that `$in` and its like take. Raises InvalidFilter."""
    if not isinstance(operand, list | tuple):
        raise invalid(operator, operand, "It takes a list", f"Pass {{{operator!r}: [1, 2]}}")
    return list(operand)


def whole(value: object) -> int | None:
    """A number without a fraction as an int of 64 bits; None for anything else."""
    found = cut(value)
    number = value.to_decimal() if isinstance(value, Decimal128) else value
    return found if found is not None and found == number else None


def cut(value: object) -> int | None:
    """The whole number of 64 bits that a number is cut to; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal128):
        return None
    number = value.to_decimal() if isinstance(value, Decimal128) else value
    if not isinstance(number, int) and (math.isnan(number) or math.isinf(number)):
        return None
    found = int(number)
    return found if -_INT64 <= found < _INT64 else None
