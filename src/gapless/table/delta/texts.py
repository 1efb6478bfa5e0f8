"""Arguments that the log keeps as texts."""

from __future__ import annotations

from gapless.errors import InvalidOption


def check_text(option: str, value: object, *, optional: bool = False) -> None:
    """Raise InvalidOption for an argument that is no str; with `optional` it may be None."""
    if not (isinstance(value, str) or (optional and value is None)):
        fix = "Pass a str, or None" if optional else "Pass a str"
        raise InvalidOption(f"{option}={value!r} is no text", fix=fix, option=option, value=value)
