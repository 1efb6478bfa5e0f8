"""Keyword options of public functions as one value: a TypedDict that is checked, completed and handed on whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from gapless.errors import InvalidOption, nearest

Options = TypeVar("Options", bound=Mapping[str, object])


def with_defaults(function: str, given: Options, defaults: Options) -> Options:
    """The options that a call gave, with the defaults of the others; raises InvalidOption for one that the function does not have.

    >>> with_defaults("scan", {"limti": 3}, {"limit": None})
    Traceback (most recent call last):
    gapless.errors.InvalidOption: scan() has no option 'limti'. Did you mean 'limit'?
    """
    for name, value in given.items():
        if name not in defaults:
            raise InvalidOption(f"{function}() has no option {name!r}", fix=nearest(name, defaults), option=name, value=value)
    return cast("Options", {**defaults, **given})
