"""Expressions that look for regular expressions in texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bson.regex import Regex

from gapless.documents.expressions.operands import Make, Parsing, constant_or, read_named, wrong_call, wrong_result, wrong_value
from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null
from gapless.documents.expressions.strings import text_of
from gapless.documents.filters.operands import PATTERN_S, parse_regex, too_long
from gapless.documents.filters.tree import Pattern
from gapless.errors import InvalidFilter

Found = Iterator[Any]
"""Matches, as the `regex` library gives them."""


def _looking(answer: Callable[[Found], Any], of_null: Callable[[], Any]) -> Make:
    def make(operator: str, given: Any, at: Parsing) -> Evaluate:
        operands = read_named(operator, given, ("input", "regex"), ("options",))
        source, wanted = at.read(operands["input"]), at.read(operands["regex"])
        options = at.read(operands["options"]) if "options" in operands else Constant(None)
        if not isinstance(options, Constant):
            raise wrong_call(
                operator, operands["options"], "options are the same for all documents", "Pass 'i', 'm', 's' or 'x'"
            )
        pattern_of = constant_or(wanted, lambda value: _pattern(operator, value, options.value))

        def looked(scope: Scope) -> Any:
            text = source(scope)
            try:
                pattern = pattern_of(scope)
            except InvalidFilter as error:
                raise wrong_result(operator, wanted(scope), error.why) from error
            if is_null(text) or pattern is None:
                return of_null()
            try:
                return answer(pattern.compiled.finditer(text_of(operator, text), timeout=PATTERN_S))
            except TimeoutError as error:
                raise too_long(pattern) from error

        return looked

    return make


def _pattern(operator: str, value: Any, options: Any) -> Pattern | None:
    if is_null(value):
        return None
    if not isinstance(value, str | Regex | re.Pattern):
        raise wrong_value(operator, value, "a text or a regular expression")
    if options and isinstance(value, Regex | re.Pattern) and value.flags & ~re.UNICODE:
        raise wrong_call(operator, options, "The regular expression has options itself", "Say them once")
    return parse_regex(value, options or None)


def _told(found: Any) -> dict[str, Any]:
    return {"match": found.group(), "idx": found.start(), "captures": list(found.groups())}


def _first(found: Found) -> dict[str, Any] | None:
    one = next(found, None)
    return None if one is None else _told(one)


PATTERNS: Mapping[str, Make] = {
    "$regexMatch": _looking(lambda found: next(found, None) is not None, lambda: False),
    "$regexFind": _looking(_first, lambda: None),
    "$regexFindAll": _looking(lambda found: [_told(one) for one in found], list),
}
