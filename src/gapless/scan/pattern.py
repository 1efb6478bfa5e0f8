"""LIKE patterns, character by character."""

from __future__ import annotations

from collections.abc import Iterator


def tokens(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """The characters of a LIKE pattern, each with whether it is a wildcard (`%` any run, `_` one character)."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield next(characters, character), False
        else:
            yield character, character in "%_"


def literal_prefix(pattern: str, escape: str | None) -> tuple[str, bool]:
    """What every match starts with, and whether that is the whole pattern.

    >>> literal_prefix("AB%", None)
    ('AB', False)
    """
    prefix = ""
    for character, special in tokens(pattern, escape):
        if special:
            return prefix, False
        prefix += character
    return prefix, True
